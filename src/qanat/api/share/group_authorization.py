"""Guards of members of share groups, and of those who look at such groups."""

from __future__ import annotations

from qanat.api.allowed_operations import ON_GROUPS
from qanat.api.authorization import GRANTED, AccessCheck, Denied, Granted, Verdict, sifted
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation, ResourceKind
from qanat.wire.kafka.messages import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_group_offsets,
    share_group_describe,
    share_group_heartbeat,
)

_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def authorize_heartbeat(request: share_group_heartbeat.ShareGroupHeartbeatRequest, access: AccessCheck) -> Verdict:
    code = ErrorCode.NONE
    if not access.may_group(Operation.READ, request.group_id):
        code = _DENIED
    elif not all(access.may_topic(Operation.DESCRIBE, name) for name in request.subscribed_topic_names or ()):
        code = _TOPIC_DENIED
    return Denied(share_group_heartbeat.ShareGroupHeartbeatResponse(error_code=code)) if code else GRANTED


def authorize_describe(request: share_group_describe.ShareGroupDescribeRequest, access: AccessCheck) -> Verdict:
    kept, denied = sifted(request.group_ids, lambda group: access.may_group(Operation.DESCRIBE, group))
    request.group_ids = kept

    def complete(
        response: share_group_describe.ShareGroupDescribeResponse,
    ) -> share_group_describe.ShareGroupDescribeResponse:
        response.groups = [_shown(group, access) for group in response.groups]
        if request.include_authorized_operations:
            for group in response.groups:
                if not group.error_code:
                    group.authorized_operations = access.bits(ResourceKind.GROUP, group.group_id, ON_GROUPS)
        response.groups += [share_group_describe.DescribedGroup(_DENIED, None, group) for group in denied]
        return response

    return Granted(complete)


def _shown(group: share_group_describe.DescribedGroup, access: AccessCheck) -> share_group_describe.DescribedGroup:
    """A group with a member that reads what the asker may not see is not shown: its members tell of topics."""
    topics = {
        topic: None
        for member in group.members
        for topic in (
            *member.subscribed_topic_names,
            *(row.topic_name for row in member.assignment.topic_partitions),
        )
    }
    if all(access.may_topic(Operation.DESCRIBE, topic) for topic in topics):
        return group
    return share_group_describe.DescribedGroup(_TOPIC_DENIED, None, group.group_id)


def authorize_describe_offsets(
    request: describe_share_group_offsets.DescribeShareGroupOffsetsRequest, access: AccessCheck
) -> Verdict:
    kept, denied = sifted(request.groups, lambda group: access.may_group(Operation.DESCRIBE, group.group_id))
    request.groups = kept
    hidden: dict[str, list[describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic]] = {}
    for group in kept:
        if group.topics is not None:
            group.topics, hidden[group.group_id] = sifted(
                group.topics, lambda topic: access.may_topic(Operation.DESCRIBE, topic.topic_name)
            )

    def complete(
        response: describe_share_group_offsets.DescribeShareGroupOffsetsResponse,
    ) -> describe_share_group_offsets.DescribeShareGroupOffsetsResponse:
        for group in response.groups:
            group.topics = [one for one in group.topics if access.may_topic(Operation.DESCRIBE, one.topic_name)]
            group.topics += [_hidden_topic(topic) for topic in hidden.get(group.group_id, ())]
        response.groups += [
            describe_share_group_offsets.DescribeShareGroupOffsetsResponseGroup(group.group_id, [], _DENIED)
            for group in denied
        ]
        return response

    return Granted(complete)


def _hidden_topic(
    topic: describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic,
) -> describe_share_group_offsets.DescribeShareGroupOffsetsResponseTopic:
    rows = [
        describe_share_group_offsets.DescribeShareGroupOffsetsResponsePartition(number, -1, error_code=_TOPIC_DENIED)
        for number in topic.partitions
    ]
    return describe_share_group_offsets.DescribeShareGroupOffsetsResponseTopic(topic.topic_name, partitions=rows)


def authorize_alter_offsets(
    request: alter_share_group_offsets.AlterShareGroupOffsetsRequest, access: AccessCheck
) -> Verdict:
    if not access.may_group(Operation.READ, request.group_id):
        return Denied(alter_share_group_offsets.AlterShareGroupOffsetsResponse(error_code=_DENIED))
    kept, denied = sifted(request.topics, lambda topic: access.may_topic(Operation.READ, topic.topic_name))
    request.topics = kept

    def complete(
        response: alter_share_group_offsets.AlterShareGroupOffsetsResponse,
    ) -> alter_share_group_offsets.AlterShareGroupOffsetsResponse:
        if not response.error_code:
            response.responses += [
                alter_share_group_offsets.AlterShareGroupOffsetsResponseTopic(
                    topic.topic_name,
                    partitions=[
                        alter_share_group_offsets.AlterShareGroupOffsetsResponsePartition(
                            row.partition_index, _TOPIC_DENIED
                        )
                        for row in topic.partitions
                    ],
                )
                for topic in denied
            ]
        return response

    return Granted(complete) if denied else GRANTED


def authorize_delete_offsets(
    request: delete_share_group_offsets.DeleteShareGroupOffsetsRequest, access: AccessCheck
) -> Verdict:
    if not access.may_group(Operation.DELETE, request.group_id):
        return Denied(delete_share_group_offsets.DeleteShareGroupOffsetsResponse(error_code=_DENIED))
    kept, denied = sifted(request.topics, lambda topic: access.may_topic(Operation.READ, topic.topic_name))
    request.topics = kept

    def complete(
        response: delete_share_group_offsets.DeleteShareGroupOffsetsResponse,
    ) -> delete_share_group_offsets.DeleteShareGroupOffsetsResponse:
        if not response.error_code:
            response.responses += [
                delete_share_group_offsets.DeleteShareGroupOffsetsResponseTopic(
                    topic.topic_name, error_code=_TOPIC_DENIED
                )
                for topic in denied
            ]
        return response

    return Granted(complete) if denied else GRANTED

"""Guards of what consumer groups do and what is done to them."""

from __future__ import annotations

from typing import Any

from qanat.api.allowed_operations import ON_GROUPS
from qanat.api.authorization import GRANTED, AccessCheck, AuthorizationRule, Denied, Granted, Verdict, sifted
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation, ResourceKind
from qanat.wire.kafka.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
)

_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_GROUP, _TRANSACTION, _SHARE_STATE = 0, 1, 2
_KEYS_FROM = 4


def reads_group(response: type[Any]) -> AuthorizationRule:
    """The guard of an API that takes part in one group, and is refused as a whole."""

    def guard(request: Any, access: AccessCheck) -> Verdict:
        if access.may_group(Operation.READ, request.group_id):
            return GRANTED
        return Denied(response(error_code=_DENIED))

    return guard


def authorize_offset_commit(request: offset_commit.OffsetCommitRequest, access: AccessCheck) -> Verdict:
    code = _TOPIC_DENIED
    kept, denied = sifted(request.topics, lambda topic: access.may_topic(Operation.READ, topic.name))
    if not access.may_group(Operation.READ, request.group_id):
        kept, denied, code = [], request.topics, _DENIED
    if not denied:
        return GRANTED
    rows = [
        offset_commit.OffsetCommitResponseTopic(
            topic.name,
            topic.topic_id,
            [offset_commit.OffsetCommitResponsePartition(row.partition_index, code) for row in topic.partitions],
        )
        for topic in denied
    ]
    if not kept:
        return Denied(offset_commit.OffsetCommitResponse(topics=rows))
    request.topics = kept

    def complete(response: offset_commit.OffsetCommitResponse) -> offset_commit.OffsetCommitResponse:
        response.topics += rows
        return response

    return Granted(complete)


def authorize_offset_fetch(request: offset_fetch.OffsetFetchRequest, access: AccessCheck) -> Verdict:
    return _fetch_of_many(request, access) if access.version >= 8 else _fetch_of_one(request, access)


def _fetch_of_one(request: offset_fetch.OffsetFetchRequest, access: AccessCheck) -> Verdict:
    if not access.may_group(Operation.DESCRIBE, request.group_id):
        topics = [_denied_topic(topic, _DENIED) for topic in request.topics or ()] if access.version < 2 else []
        return Denied(offset_fetch.OffsetFetchResponse(topics=topics, error_code=_DENIED))
    is_all, denied = request.topics is None, list[offset_fetch.OffsetFetchRequestTopic]()
    if request.topics is not None:
        request.topics, denied = sifted(request.topics, lambda topic: access.may_topic(Operation.DESCRIBE, topic.name))

    def complete(response: offset_fetch.OffsetFetchResponse) -> offset_fetch.OffsetFetchResponse:
        if is_all:
            response.topics = [one for one in response.topics if access.may_topic(Operation.DESCRIBE, one.name)]
        response.topics += [_denied_topic(topic, _TOPIC_DENIED) for topic in denied]
        return response

    return Granted(complete)


def _denied_topic(
    topic: offset_fetch.OffsetFetchRequestTopic, code: ErrorCode
) -> offset_fetch.OffsetFetchResponseTopic:
    rows = [offset_fetch.OffsetFetchResponsePartition(number, -1, -1, "", code) for number in topic.partition_indexes]
    return offset_fetch.OffsetFetchResponseTopic(topic.name, rows)


def _fetch_of_many(request: offset_fetch.OffsetFetchRequest, access: AccessCheck) -> Verdict:
    kept, hidden = sifted(request.groups, lambda group: access.may_group(Operation.DESCRIBE, group.group_id))
    request.groups = kept
    denied: dict[str, list[offset_fetch.OffsetFetchRequestTopics]] = {}
    for group in kept:
        if group.topics is not None:
            group.topics, denied[group.group_id] = sifted(
                group.topics, lambda topic: access.may_topic(Operation.DESCRIBE, topic.name)
            )

    def complete(response: offset_fetch.OffsetFetchResponse) -> offset_fetch.OffsetFetchResponse:
        for group in response.groups:
            if group.error_code:
                continue
            if group.group_id not in denied:
                group.topics = [one for one in group.topics if access.may_topic(Operation.DESCRIBE, one.name)]
            for topic in denied.get(group.group_id, ()):
                rows = [
                    offset_fetch.OffsetFetchResponsePartitions(number, -1, -1, "", _TOPIC_DENIED)
                    for number in topic.partition_indexes
                ]
                group.topics.append(offset_fetch.OffsetFetchResponseTopics(topic.name, topic.topic_id, rows))
        response.groups += [offset_fetch.OffsetFetchResponseGroup(group.group_id, [], _DENIED) for group in hidden]
        return response

    return Granted(complete)


def authorize_find_coordinator(request: find_coordinator.FindCoordinatorRequest, access: AccessCheck) -> Verdict:
    if request.key_type == _SHARE_STATE and not access.may_cluster(Operation.CLUSTER_ACTION):
        return _unfound(request, access.version)
    is_transaction = request.key_type == _TRANSACTION
    kind = ResourceKind.TRANSACTIONAL_ID if is_transaction else ResourceKind.GROUP
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if is_transaction else _DENIED
    if access.version < _KEYS_FROM:
        if access.may(Operation.DESCRIBE, kind, request.key):
            return GRANTED
        return Denied(
            find_coordinator.FindCoordinatorResponse(error_code=code, error_message=None, node_id=-1, port=-1)
        )
    kept, denied = sifted(request.coordinator_keys, lambda key: access.may(Operation.DESCRIBE, kind, key))
    request.coordinator_keys = kept

    def complete(response: find_coordinator.FindCoordinatorResponse) -> find_coordinator.FindCoordinatorResponse:
        response.coordinators += [find_coordinator.Coordinator(key, -1, "", -1, code, None) for key in denied]
        return response

    return Granted(complete) if denied else GRANTED


def _unfound(request: find_coordinator.FindCoordinatorRequest, version: int) -> Denied:
    """Where the states of share groups are kept is for brokers to know."""
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if version < _KEYS_FROM:
        return Denied(
            find_coordinator.FindCoordinatorResponse(error_code=code, error_message=None, node_id=-1, port=-1)
        )
    rows = [find_coordinator.Coordinator(key, -1, "", -1, code, None) for key in request.coordinator_keys]
    return Denied(find_coordinator.FindCoordinatorResponse(coordinators=rows))


def authorize_describe_groups(request: describe_groups.DescribeGroupsRequest, access: AccessCheck) -> Verdict:
    kept, denied = sifted(request.groups, lambda group: access.may_group(Operation.DESCRIBE, group))
    request.groups = kept

    def complete(response: describe_groups.DescribeGroupsResponse) -> describe_groups.DescribeGroupsResponse:
        if request.include_authorized_operations:
            for group in response.groups:
                if not group.error_code:
                    group.authorized_operations = access.bits(ResourceKind.GROUP, group.group_id, ON_GROUPS)
        response.groups += [describe_groups.DescribedGroup(_DENIED, None, group) for group in denied]
        return response

    return Granted(complete)


def authorize_consumer_heartbeat(
    request: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest, access: AccessCheck
) -> Verdict:
    """Topics that are named must be visible; an expression stands for those that are (`Context.visibility`)."""
    code = ErrorCode.NONE
    topics = request.subscribed_topic_names or ()
    if not access.may_group(Operation.READ, request.group_id):
        code = _DENIED
    elif not all(access.may_topic(Operation.DESCRIBE, name) for name in topics):
        code = _TOPIC_DENIED
    return Denied(consumer_group_heartbeat.ConsumerGroupHeartbeatResponse(error_code=code)) if code else GRANTED


def authorize_describe_consumers(
    request: consumer_group_describe.ConsumerGroupDescribeRequest, access: AccessCheck
) -> Verdict:
    kept, denied = sifted(request.group_ids, lambda group: access.may_group(Operation.DESCRIBE, group))
    request.group_ids = kept

    def complete(
        response: consumer_group_describe.ConsumerGroupDescribeResponse,
    ) -> consumer_group_describe.ConsumerGroupDescribeResponse:
        response.groups = [_shown(group, access) for group in response.groups]
        if request.include_authorized_operations:
            for group in response.groups:
                if not group.error_code:
                    group.authorized_operations = access.bits(ResourceKind.GROUP, group.group_id, ON_GROUPS)
        response.groups += [consumer_group_describe.DescribedGroup(_DENIED, None, group) for group in denied]
        return response

    return Granted(complete)


def _shown(
    group: consumer_group_describe.DescribedGroup, access: AccessCheck
) -> consumer_group_describe.DescribedGroup:
    """A group with a member that reads what the asker may not see is not shown: its members tell of topics."""
    topics = {
        topic: None
        for member in group.members
        for topic in (
            *member.subscribed_topic_names,
            *(row.topic_name for row in member.assignment.topic_partitions),
            *(row.topic_name for row in member.target_assignment.topic_partitions),
        )
    }
    if all(access.may_topic(Operation.DESCRIBE, topic) for topic in topics):
        return group
    return consumer_group_describe.DescribedGroup(_TOPIC_DENIED, None, group.group_id)


def authorize_list_groups(request: list_groups.ListGroupsRequest, access: AccessCheck) -> Verdict:
    if access.may_cluster(Operation.DESCRIBE):
        return GRANTED

    def complete(response: list_groups.ListGroupsResponse) -> list_groups.ListGroupsResponse:
        response.groups = [one for one in response.groups if access.may_group(Operation.DESCRIBE, one.group_id)]
        return response

    return Granted(complete)


def authorize_delete_groups(request: delete_groups.DeleteGroupsRequest, access: AccessCheck) -> Verdict:
    kept, denied = sifted(request.groups_names, lambda group: access.may_group(Operation.DELETE, group))
    request.groups_names = kept

    def complete(response: delete_groups.DeleteGroupsResponse) -> delete_groups.DeleteGroupsResponse:
        response.results += [delete_groups.DeletableGroupResult(group, _DENIED) for group in denied]
        return response

    return Granted(complete) if denied else GRANTED


def authorize_offset_delete(request: offset_delete.OffsetDeleteRequest, access: AccessCheck) -> Verdict:
    if not access.may_group(Operation.DELETE, request.group_id):
        return Denied(offset_delete.OffsetDeleteResponse(error_code=_DENIED))
    kept, denied = sifted(request.topics, lambda topic: access.may_topic(Operation.READ, topic.name))
    request.topics = kept

    def complete(response: offset_delete.OffsetDeleteResponse) -> offset_delete.OffsetDeleteResponse:
        if not response.error_code:
            response.topics += [
                offset_delete.OffsetDeleteResponseTopic(
                    topic.name,
                    [
                        offset_delete.OffsetDeleteResponsePartition(row.partition_index, _TOPIC_DENIED)
                        for row in topic.partitions
                    ],
                )
                for topic in denied
            ]
        return response

    return Granted(complete) if denied else GRANTED

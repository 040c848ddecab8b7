"""Guards of members of share groups, and of those who look at such groups."""

from __future__ import annotations

from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation, ResourceKind
from qanat.servers.kafka.guards.asking import GRANTED, Asker, Denied, Granted, Verdict, sifted
from qanat.servers.kafka.operations import ON_GROUPS
from qanat.wire.kafka.messages import share_group_describe, share_group_heartbeat

_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def guard_heartbeat(request: share_group_heartbeat.ShareGroupHeartbeatRequest, asker: Asker) -> Verdict:
    code = ErrorCode.NONE
    if not asker.may_group(Operation.READ, request.group_id):
        code = _DENIED
    elif not all(asker.may_topic(Operation.DESCRIBE, name) for name in request.subscribed_topic_names or ()):
        code = _TOPIC_DENIED
    return Denied(share_group_heartbeat.ShareGroupHeartbeatResponse(error_code=code)) if code else GRANTED


def guard_describe(request: share_group_describe.ShareGroupDescribeRequest, asker: Asker) -> Verdict:
    kept, denied = sifted(request.group_ids, lambda group: asker.may_group(Operation.DESCRIBE, group))
    request.group_ids = kept

    def complete(
        response: share_group_describe.ShareGroupDescribeResponse,
    ) -> share_group_describe.ShareGroupDescribeResponse:
        response.groups = [_shown(group, asker) for group in response.groups]
        if request.include_authorized_operations:
            for group in response.groups:
                if not group.error_code:
                    group.authorized_operations = asker.bits(ResourceKind.GROUP, group.group_id, ON_GROUPS)
        response.groups += [share_group_describe.DescribedGroup(_DENIED, None, group) for group in denied]
        return response

    return Granted(complete)


def _shown(group: share_group_describe.DescribedGroup, asker: Asker) -> share_group_describe.DescribedGroup:
    """A group with a member that reads what the asker may not see is not shown: its members tell of topics."""
    topics = {
        topic: None
        for member in group.members
        for topic in (
            *member.subscribed_topic_names,
            *(row.topic_name for row in member.assignment.topic_partitions),
        )
    }
    if all(asker.may_topic(Operation.DESCRIBE, topic) for topic in topics):
        return group
    return share_group_describe.DescribedGroup(_TOPIC_DENIED, None, group.group_id)

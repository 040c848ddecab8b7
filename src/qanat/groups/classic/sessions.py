"""Sessions of members: a heartbeat renews one, silence ends it and the member is removed."""

from __future__ import annotations

from qanat.groups.classic.group import ClassicGroup
from qanat.groups.classic.membership import generation_error
from qanat.groups.classic.rebalance import maybe_complete_join, prepare_or_complete, remove, renew_session
from qanat.groups.classic.states import GroupState
from qanat.groups.decision_builder import DecisionBuilder
from qanat.groups.replies import HeartbeatReply
from qanat.groups.requests import Heartbeat
from qanat.model.error_codes import ErrorCode


def heartbeat(builder: DecisionBuilder, request: Heartbeat) -> HeartbeatReply:
    group = builder.state.groups.get(request.group_id)
    if group is None:
        return HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID)
    error = generation_error(group, request.member_id, request.instance_id, request.generation_id)
    if error is not ErrorCode.NONE:
        return HeartbeatReply(error)
    renew_session(builder, group, group.members[request.member_id])
    is_called = group.state is GroupState.PREPARING_REBALANCE
    return HeartbeatReply(ErrorCode.REBALANCE_IN_PROGRESS if is_called else ErrorCode.NONE)


def on_session_timer(builder: DecisionBuilder, group: ClassicGroup, member_id: str) -> None:
    """A member was silent for too long; one with a parked request is not, unless it never was in a generation."""
    member = group.members.get(member_id)
    if member is None:
        group.pending_members.pop(member_id, None)
        maybe_complete_join(builder, group)
    elif member.is_new or (member.join_ticket is None and member.sync_ticket is None):
        remove(builder, group, member)
        prepare_or_complete(builder, group)

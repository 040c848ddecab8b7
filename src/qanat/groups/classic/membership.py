"""SyncGroup and LeaveGroup: requests of a generation's members, and who is a member.

- SyncGroup 5   the protocol's type and name are compared
- LeaveGroup 3  several members in one request, static ones by instance id alone

Differs from Kafka: a pending member that leaves a stable group does not start a
rebalance, and a parked sync is answered when its member is removed.
"""

from __future__ import annotations

from qanat.groups.classic.group import ClassicGroup, Member
from qanat.groups.classic.rebalance import answer_sync, maybe_complete_join, prepare_or_complete, remove
from qanat.groups.classic.states import GroupState
from qanat.groups.decision_builder import DecisionBuilder
from qanat.groups.decisions import Parked
from qanat.groups.replies import LeaveReply, LeftMember, SyncReply
from qanat.groups.requests import LeaveGroup, LeavingMember, SyncGroup
from qanat.groups.timers import TimerKind
from qanat.model.error_codes import ErrorCode


def member_error(group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """Whether this is a member, and for a static one whether it is the latest with its instance id."""
    if instance_id is not None:
        present = group.static_members.get(instance_id)
        if present is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if present != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def generation_error(group: ClassicGroup, member_id: str, instance_id: str | None, generation_id: int) -> ErrorCode:
    error = member_error(group, member_id, instance_id)
    if error is ErrorCode.NONE and generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def sync(builder: DecisionBuilder, request: SyncGroup) -> SyncReply | Parked:
    group = builder.state.groups.get(request.group_id)
    if group is None:
        return SyncReply(ErrorCode.UNKNOWN_MEMBER_ID)
    error = generation_error(group, request.member_id, request.instance_id, request.generation_id)
    if error is not ErrorCode.NONE:
        return SyncReply(error)
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol_name):
        return SyncReply(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is GroupState.PREPARING_REBALANCE:
        return SyncReply(ErrorCode.REBALANCE_IN_PROGRESS)
    member = group.members[request.member_id]
    group.pending_syncs.pop(member.member_id, None)
    if not group.pending_syncs:
        builder.cancel(TimerKind.SYNC, group)
    if group.state is GroupState.STABLE:
        return _assignment(group, member)
    return _await_sync(builder, group, member, request)


def _await_sync(builder: DecisionBuilder, group: ClassicGroup, member: Member, request: SyncGroup) -> Parked:
    answer_sync(builder, group, member, SyncReply(ErrorCode.REBALANCE_IN_PROGRESS))
    parked = builder.park()
    member.sync_ticket = parked.ticket
    if group.leader_id == member.member_id:
        _assign(builder, group, dict(request.assignments))
    return parked


def _assign(builder: DecisionBuilder, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
    """Apply the leader's assignment: write the generation and answer its members. A member left out gets nothing."""
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    group.become(GroupState.STABLE, builder.now.wall_ms)
    builder.write(group.as_record())
    for member in group.members.values():
        answer_sync(builder, group, member, _assignment(group, member))


def _assignment(group: ClassicGroup, member: Member) -> SyncReply:
    return SyncReply(ErrorCode.NONE, member.assignment, group.protocol_type, group.protocol_name)


def _differs(asked: str | None, present: str | None) -> bool:
    return asked is not None and present is not None and asked != present


def leave(builder: DecisionBuilder, request: LeaveGroup) -> LeaveReply:
    group = builder.state.groups.get(request.group_id)
    if group is None:
        unknown = (LeftMember(one.member_id, one.instance_id, ErrorCode.UNKNOWN_MEMBER_ID) for one in request.members)
        return LeaveReply(members=tuple(unknown))
    size_before = len(group.members)
    outcomes = tuple(
        LeftMember(one.member_id, one.instance_id, _leave_one(builder, group, one)) for one in request.members
    )
    if len(group.members) < size_before:
        prepare_or_complete(builder, group)
    else:
        maybe_complete_join(builder, group)
    return LeaveReply(members=outcomes)


def _leave_one(builder: DecisionBuilder, group: ClassicGroup, leaving: LeavingMember) -> ErrorCode:
    member_id = leaving.member_id
    if member_id == "":
        member_id = group.static_members.get(leaving.instance_id or "", "")
    elif member_id in group.pending_members:
        del group.pending_members[member_id]
        builder.cancel(TimerKind.SESSION, group, member_id)
        return ErrorCode.NONE
    error = member_error(group, member_id, leaving.instance_id)
    if error is ErrorCode.NONE:
        remove(builder, group, group.members[member_id])
    return error

"""JoinGroup, versions 0 to 9.

- 0     the session timeout is the rebalance timeout as well
- 4     a new member gets its id first and must come back with it (KIP-394)
- 5     static members: an instance id outlives member ids (KIP-345)
- 7     the reply names the protocol type
- 9     a returning static leader is told not to assign (KIP-814)

Differs from Kafka: a request that a later one of the same member replaces is
answered (REBALANCE_IN_PROGRESS) and not forgotten; a static member that comes
back finds its place in a full group; a refused first join leaves no group.
"""

from __future__ import annotations

from qanat.groups.classic.group import ClassicGroup, Member
from qanat.groups.classic.membership import member_error
from qanat.groups.classic.rebalance import (
    answer_join,
    generation_reply,
    joined_members,
    maybe_complete_join,
    prepare,
    prepare_or_complete,
    release,
    remove,
    renew_session,
)
from qanat.groups.classic.states import GroupState
from qanat.groups.decision_builder import DecisionBuilder
from qanat.groups.decisions import Parked
from qanat.groups.replies import JoinReply
from qanat.groups.requests import JoinGroup
from qanat.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from qanat.groups.timers import TimerKind
from qanat.model.error_codes import ErrorCode

LONGEST_NAME = 8_000
"""Characters in a member's own names: values derived from them must fit a record's 16-bit lengths."""


def join(builder: DecisionBuilder, request: JoinGroup) -> JoinReply | Parked:
    error = _request_error(builder, request)
    group = builder.state.groups.get(request.group_id)
    if error is ErrorCode.NONE and group is None:
        error = _founding_error(request)
    if error is not ErrorCode.NONE:
        return JoinReply(error, request.member_id)
    if group is None:
        group = builder.live_group(request.group_id)
        builder.write(group.as_record())
    if not _has_room(builder, group, request):
        _reject(builder, group, request.member_id)
        return JoinReply(ErrorCode.GROUP_MAX_SIZE_REACHED)
    if not group.supports(request.protocol_type, request.protocols):
        return JoinReply(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    if request.member_id == "":
        return _join_new(builder, group, request)
    if request.member_id in group.pending_members and request.instance_id is None:
        return _add(builder, group, request, request.member_id)
    return _join_known(builder, group, request)


def _request_error(builder: DecisionBuilder, request: JoinGroup) -> ErrorCode:
    settings = builder.state.settings
    timeout_ms = request.session_timeout_ms
    if not settings.group_min_session_timeout_ms <= timeout_ms <= settings.group_max_session_timeout_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    names = [request.client_id, request.client_host, request.instance_id or "", request.protocol_type, request.unique]
    names += [one.name for one in request.protocols]
    if max(map(len, names)) > LONGEST_NAME:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _founding_error(request: JoinGroup) -> ErrorCode:
    """Whether a group may be created for this member."""
    if request.member_id != "":
        return ErrorCode.UNKNOWN_MEMBER_ID
    if request.protocol_type == "" or request.protocols == ():
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _has_room(builder: DecisionBuilder, group: ClassicGroup, request: JoinGroup) -> bool:
    """During a rebalance, the first members to join get the places."""
    member_id = group.static_members.get(request.instance_id or "", request.member_id)
    member = group.members.get(member_id)
    size_max = builder.state.settings.group_max_size
    match group.state:
        case GroupState.PREPARING_REBALANCE:
            is_in = member is not None and member.join_ticket is not None
            return is_in or group.awaiting_join_count < size_max
        case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
            return member is not None or len(group.members) < size_max
        case _:
            return True


def _reject(builder: DecisionBuilder, group: ClassicGroup, member_id: str) -> None:
    """Remove a member for which there is no room any more."""
    member = group.members.get(member_id)
    if member is not None:
        remove(builder, group, member)
    elif member_id in group.pending_members:
        del group.pending_members[member_id]
        builder.cancel(TimerKind.SESSION, group, member_id)
    maybe_complete_join(builder, group)


def _join_new(builder: DecisionBuilder, group: ClassicGroup, request: JoinGroup) -> JoinReply | Parked:
    is_static = request.instance_id is not None
    member_id = f"{request.instance_id if is_static else request.client_id}-{request.unique}"
    assert member_id not in group.members, "the shell's unique part was used before"
    if is_static and request.instance_id in group.static_members:
        return _replace(builder, group, request, member_id)
    if is_static or not request.needs_member_id:
        return _add(builder, group, request, member_id)
    group.pending_members[member_id] = None
    builder.schedule(TimerKind.SESSION, group, request.session_timeout_ms, member_id)
    return JoinReply(ErrorCode.MEMBER_ID_REQUIRED, member_id)


def _add(builder: DecisionBuilder, group: ClassicGroup, request: JoinGroup, member_id: str) -> Parked:
    member = Member(member_id, request.instance_id, request.client_id, request.client_host)
    member.is_new = True
    group.has_new_member = group.initial_delay_left_ms is not None
    group.add(member, request.protocol_type)
    parked = _await_join(builder, group, member, request)
    builder.schedule(TimerKind.SESSION, group, NEW_MEMBER_JOIN_TIMEOUT_MS, member_id)
    prepare_or_complete(builder, group)
    return parked


def _join_known(builder: DecisionBuilder, group: ClassicGroup, request: JoinGroup) -> JoinReply | Parked:
    """A member joins again: for a rebalance, after a lost reply, or with changes."""
    error = member_error(group, request.member_id, request.instance_id)
    if error is not ErrorCode.NONE:
        return JoinReply(error, request.member_id)
    member = group.members[request.member_id]
    has_news = member.protocols != request.protocols
    is_calling = group.state is GroupState.STABLE and group.leader_id == member.member_id
    if group.state is not GroupState.PREPARING_REBALANCE and not has_news and not is_calling:
        return generation_reply(group, member)
    parked = _await_join(builder, group, member, request)
    prepare_or_complete(builder, group)
    return parked


def _replace(builder: DecisionBuilder, group: ClassicGroup, request: JoinGroup, member_id: str) -> JoinReply | Parked:
    """A static member is back under a new id: the old id is fenced (KIP-345)."""
    assert request.instance_id is not None
    member = group.members[group.static_members[request.instance_id]]
    leader_before = group.leader_id
    release(builder, group, member, ErrorCode.FENCED_INSTANCE_ID, member.member_id)
    builder.cancel(TimerKind.SESSION, group, member.member_id)
    group.rename(member, member_id)
    member.client_id, member.client_host = request.client_id, request.client_host
    _update(group, member, request)
    renew_session(builder, group, member)
    if group.state is GroupState.STABLE and group.select_protocol() == group.protocol_name:
        group.update_subscribed_topics()
        builder.write(group.as_record())
        return _return_reply(group, member, request, leader_before)
    parked = builder.park()
    group.await_join(member, parked.ticket)
    if group.state is GroupState.COMPLETING_REBALANCE:
        prepare(builder, group)
    else:
        prepare_or_complete(builder, group)
    return parked


def _return_reply(group: ClassicGroup, member: Member, request: JoinGroup, leader_before: str | None) -> JoinReply:
    """A static member finds its place as it left it.

    A leader that cannot be told to skip the assignment gets its old id as the
    leader's: it takes itself for a follower and does not assign.
    """
    is_leader = group.leader_id == member.member_id
    return JoinReply(
        member_id=member.member_id,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader_id=(group.leader_id if request.may_skip_assignment else leader_before) or "",
        members=joined_members(group) if is_leader and request.may_skip_assignment else (),
        skip_assignment=is_leader and request.may_skip_assignment,
    )


def _await_join(builder: DecisionBuilder, group: ClassicGroup, member: Member, request: JoinGroup) -> Parked:
    """Park a join; an earlier one of the same member is answered, because its client has moved on."""
    answer_join(builder, group, member, JoinReply(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
    _update(group, member, request)
    parked = builder.park()
    group.await_join(member, parked.ticket)
    return parked


def _update(group: ClassicGroup, member: Member, request: JoinGroup) -> None:
    session_ms = request.session_timeout_ms
    rebalance_ms = request.rebalance_timeout_ms if request.rebalance_timeout_ms > 0 else session_ms
    group.update(member, request.protocols, session_ms, rebalance_ms)

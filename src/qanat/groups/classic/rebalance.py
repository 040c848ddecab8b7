"""From one generation to the next: waiting for everybody to join, and for everybody to sync.

A rebalance starts with the first join that changes something, or when a member
goes. It ends the join phase when every known member has joined or the longest
rebalance timeout among them has passed; whoever did not come back is out,
static members excepted (KIP-345). The leader's assignment makes the group
stable (`membership`).
"""

from __future__ import annotations

from qanat.groups.classic.group import ClassicGroup, Member
from qanat.groups.classic.states import GroupState
from qanat.groups.replies import JoinedMember, JoinReply, SyncReply
from qanat.groups.timers import TimerKind
from qanat.groups.turn import Turn
from qanat.model.error_codes import ErrorCode


def prepare_or_complete(turn: Turn, group: ClassicGroup) -> None:
    """Something changed: start a rebalance, or see whether the one that is on can go ahead."""
    if group.state is GroupState.PREPARING_REBALANCE:
        maybe_complete_join(turn, group)
    else:
        prepare(turn, group)


def prepare(turn: Turn, group: ClassicGroup) -> None:
    """Call everybody to join; an empty group first waits a while for company (KIP-134)."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        for member in group.members.values():
            answer_sync(turn, group, member, SyncReply(ErrorCode.REBALANCE_IN_PROGRESS))
    group.pending_syncs.clear()
    turn.cancel(TimerKind.SYNC, group)
    is_first = group.state is GroupState.EMPTY
    group.become(GroupState.PREPARING_REBALANCE, turn.now.wall_ms)
    if is_first:
        delay_ms = turn.state.settings.group_initial_rebalance_delay_ms
        group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        turn.schedule(TimerKind.JOIN, group, delay_ms)
    elif group.has_everybody_joined:
        complete_join(turn, group)
    else:
        turn.schedule(TimerKind.JOIN, group, group.rebalance_timeout_ms)


def maybe_complete_join(turn: Turn, group: ClassicGroup) -> None:
    """End the join phase early if nobody is missing; the initial delay is always waited for."""
    is_waiting_for_company = group.initial_delay_left_ms is not None
    if group.state is GroupState.PREPARING_REBALANCE and not is_waiting_for_company and group.has_everybody_joined:
        complete_join(turn, group)


def complete_join(turn: Turn, group: ClassicGroup) -> None:
    """Go on with those who joined; if nobody did, wait for the static members that are left."""
    turn.cancel(TimerKind.JOIN, group)
    group.initial_delay_left_ms = None
    for member in [one for one in group.members.values() if one.join_ticket is None and one.instance_id is None]:
        remove(turn, group, member)
    if group.members and not group.elect_joined_leader():
        turn.schedule(TimerKind.JOIN, group, group.rebalance_timeout_ms)
        return
    group.start_generation(turn.now.wall_ms)
    if group.state is GroupState.EMPTY:
        turn.write(group.as_record())
        return
    for member in group.members.values():
        answer_join(turn, group, member, generation_reply(group, member))
        member.is_new = False
        renew_session(turn, group, member)
    turn.schedule(TimerKind.SYNC, group, group.rebalance_timeout_ms)


def on_join_timer(turn: Turn, group: ClassicGroup) -> None:
    """The initial delay is over, or the rebalance timeout: the former is prolonged while members keep coming."""
    left_ms = group.initial_delay_left_ms
    if not left_ms or not group.has_new_member:
        complete_join(turn, group)
        return
    group.has_new_member = False
    delay_ms = min(turn.state.settings.group_initial_rebalance_delay_ms, left_ms)
    group.initial_delay_left_ms = left_ms - delay_ms
    turn.schedule(TimerKind.JOIN, group, delay_ms)


def on_sync_timer(turn: Turn, group: ClassicGroup) -> None:
    """Members that took their generation and never asked for the assignment are out."""
    silent = [group.members[member_id] for member_id in group.pending_syncs]
    for member in silent:
        remove(turn, group, member)
    if silent:
        prepare(turn, group)


def on_session_timer(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    """A member was silent for too long; one that waits for us is not silent, unless it never was in a generation."""
    member = group.members.get(member_id)
    if member is None:
        group.pending_members.pop(member_id, None)
        maybe_complete_join(turn, group)
    elif member.is_new or (member.join_ticket is None and member.sync_ticket is None):
        remove(turn, group, member)
        prepare_or_complete(turn, group)


def remove(turn: Turn, group: ClassicGroup, member: Member) -> None:
    """Take a member out and tell it so, if it is there to hear it."""
    release(turn, group, member, ErrorCode.UNKNOWN_MEMBER_ID)
    turn.cancel(TimerKind.SESSION, group, member.member_id)
    group.remove(member)


def release(turn: Turn, group: ClassicGroup, member: Member, error: ErrorCode, member_id: str = "") -> None:
    """Answer whatever a member has parked with an error."""
    answer_join(turn, group, member, JoinReply(error, member_id))
    answer_sync(turn, group, member, SyncReply(error))


def answer_join(turn: Turn, group: ClassicGroup, member: Member, reply: JoinReply) -> None:
    ticket = group.take_join_ticket(member)
    if ticket is not None:
        turn.deliver(ticket, reply)


def answer_sync(turn: Turn, group: ClassicGroup, member: Member, reply: SyncReply) -> None:
    """Answering starts the session afresh: it did not run while the member waited."""
    if member.sync_ticket is not None:
        turn.deliver(member.sync_ticket, reply)
        member.sync_ticket = None
        renew_session(turn, group, member)


def renew_session(turn: Turn, group: ClassicGroup, member: Member) -> None:
    turn.schedule(TimerKind.SESSION, group, member.session_timeout_ms, member.member_id)


def generation_reply(group: ClassicGroup, member: Member) -> JoinReply:
    """The present generation, as this member is told of it."""
    is_leader = member.member_id == group.leader_id
    return JoinReply(
        member_id=member.member_id,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader_id=group.leader_id or "",
        members=joined_members(group) if is_leader else (),
    )


def joined_members(group: ClassicGroup) -> tuple[JoinedMember, ...]:
    return tuple(
        JoinedMember(member.member_id, member.instance_id, member.metadata(group.protocol_name))
        for member in group.members.values()
    )

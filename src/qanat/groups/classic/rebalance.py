"""Rebalances: waiting for all members to join, and for all to sync.

A rebalance starts with the first join that changes something, or when a member
leaves. The join phase ends when every known member has joined or the longest
rebalance timeout among them has passed; members that did not come back are removed,
except static ones (KIP-345). The leader's assignment makes the group
stable (`membership`).
"""

from __future__ import annotations

from qanat.groups.classic.group import ClassicGroup, Member
from qanat.groups.classic.states import GroupState
from qanat.groups.decision_builder import DecisionBuilder
from qanat.groups.replies import JoinedMember, JoinReply, SyncReply
from qanat.groups.timers import TimerKind
from qanat.model.error_codes import ErrorCode


def prepare_or_complete(builder: DecisionBuilder, group: ClassicGroup) -> None:
    """After a change: start a rebalance, or check whether the current one can go ahead."""
    if group.state is GroupState.PREPARING_REBALANCE:
        maybe_complete_join(builder, group)
    else:
        prepare(builder, group)


def prepare(builder: DecisionBuilder, group: ClassicGroup) -> None:
    """Start the join phase; an empty group first waits a while for more members (KIP-134)."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        for member in group.members.values():
            answer_sync(builder, group, member, SyncReply(ErrorCode.REBALANCE_IN_PROGRESS))
    group.pending_syncs.clear()
    builder.cancel(TimerKind.SYNC, group)
    is_first = group.state is GroupState.EMPTY
    group.become(GroupState.PREPARING_REBALANCE, builder.now.wall_ms)
    if is_first:
        delay_ms = builder.state.settings.group_initial_rebalance_delay_ms
        group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        builder.schedule(TimerKind.JOIN, group, delay_ms)
    elif group.have_all_joined:
        complete_join(builder, group)
    else:
        builder.schedule(TimerKind.JOIN, group, group.rebalance_timeout_ms)


def maybe_complete_join(builder: DecisionBuilder, group: ClassicGroup) -> None:
    """End the join phase early if no member is missing; the initial delay is always waited for."""
    is_waiting_for_company = group.initial_delay_left_ms is not None
    if group.state is GroupState.PREPARING_REBALANCE and not is_waiting_for_company and group.have_all_joined:
        complete_join(builder, group)


def complete_join(builder: DecisionBuilder, group: ClassicGroup) -> None:
    """Continue with the members that joined; if none did, wait for the static members that are left."""
    builder.cancel(TimerKind.JOIN, group)
    group.initial_delay_left_ms = None
    for member in [one for one in group.members.values() if one.join_ticket is None and one.instance_id is None]:
        remove(builder, group, member)
    if group.members and not group.elect_joined_leader():
        builder.schedule(TimerKind.JOIN, group, group.rebalance_timeout_ms)
        return
    group.start_generation(builder.now.wall_ms)
    if group.state is GroupState.EMPTY:
        builder.write(group.as_record())
        return
    for member in group.members.values():
        answer_join(builder, group, member, generation_reply(group, member))
        member.is_new = False
        renew_session(builder, group, member)
    builder.schedule(TimerKind.SYNC, group, group.rebalance_timeout_ms)


def on_join_timer(builder: DecisionBuilder, group: ClassicGroup) -> None:
    """The initial delay is over, or the rebalance timeout: the former is prolonged while members keep coming."""
    left_ms = group.initial_delay_left_ms
    if not left_ms or not group.has_new_member:
        complete_join(builder, group)
        return
    group.has_new_member = False
    delay_ms = min(builder.state.settings.group_initial_rebalance_delay_ms, left_ms)
    group.initial_delay_left_ms = left_ms - delay_ms
    builder.schedule(TimerKind.JOIN, group, delay_ms)


def on_sync_timer(builder: DecisionBuilder, group: ClassicGroup) -> None:
    """Remove members that joined the generation and never synced."""
    silent = [group.members[member_id] for member_id in group.pending_syncs]
    for member in silent:
        remove(builder, group, member)
    if silent:
        prepare(builder, group)


def remove(builder: DecisionBuilder, group: ClassicGroup, member: Member) -> None:
    """Remove a member and answer its parked requests."""
    release(builder, group, member, ErrorCode.UNKNOWN_MEMBER_ID)
    builder.cancel(TimerKind.SESSION, group, member.member_id)
    group.remove(member)


def release(
    builder: DecisionBuilder, group: ClassicGroup, member: Member, error: ErrorCode, member_id: str = ""
) -> None:
    """Answer all parked requests of a member with an error."""
    answer_join(builder, group, member, JoinReply(error, member_id))
    answer_sync(builder, group, member, SyncReply(error))


def answer_join(builder: DecisionBuilder, group: ClassicGroup, member: Member, reply: JoinReply) -> None:
    ticket = group.take_join_ticket(member)
    if ticket is not None:
        builder.deliver(ticket, reply)


def answer_sync(builder: DecisionBuilder, group: ClassicGroup, member: Member, reply: SyncReply) -> None:
    """Answering restarts the session: it did not run while the member waited."""
    if member.sync_ticket is not None:
        builder.deliver(member.sync_ticket, reply)
        member.sync_ticket = None
        renew_session(builder, group, member)


def renew_session(builder: DecisionBuilder, group: ClassicGroup, member: Member) -> None:
    builder.schedule(TimerKind.SESSION, group, member.session_timeout_ms, member.member_id)


def generation_reply(group: ClassicGroup, member: Member) -> JoinReply:
    """The current generation, as this member's reply."""
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

"""Deadlines of members: a session that heartbeats renew, and how long letting go, joining and syncing may take."""

from __future__ import annotations

from qanat.groups.consumer.group import ConsumerGroup
from qanat.groups.consumer.records import ConsumerMemberRecord, CurrentAssignmentRecord, MemberState
from qanat.groups.timers import Timer, TimerKind
from qanat.groups.turn import Turn


def start(turn: Turn, group: ConsumerGroup) -> None:
    """After a load every session begins anew, and so does letting go."""
    for member_id, member in group.members.items():
        renew_session(turn, group, member)
        watch_revocation(turn, group, member, group.current_of(member_id))


def renew_session(turn: Turn, group: ConsumerGroup, member: ConsumerMemberRecord) -> None:
    if member.classic is not None:
        delay_ms = member.classic.session_timeout_ms
    else:
        delay_ms = turn.state.client_sessions_ms.get(member.client_id, 0)
        delay_ms = delay_ms or turn.own_settings(group.group_id).consumer_session_timeout_ms
    _schedule(turn, Timer(TimerKind.SESSION, group.group_id, member.member_id), delay_ms)


def watch_revocation(
    turn: Turn, group: ConsumerGroup, member: ConsumerMemberRecord, current: CurrentAssignmentRecord
) -> None:
    """A member must let go within its rebalance timeout. Classic ones have theirs to join in (`call_to_join`)."""
    timer = Timer(TimerKind.REVOCATION, group.group_id, member.member_id)
    if current.state is MemberState.UNREVOKED and not member.is_classic:
        _schedule(turn, timer, member.rebalance_timeout_ms)
    else:
        turn.state.timers.cancel(timer)


def call_to_join(turn: Turn, group: ConsumerGroup, member: ConsumerMemberRecord) -> None:
    """A classic member was told to join; being told again gives it no more time."""
    timer = Timer(TimerKind.JOIN, group.group_id, member.member_id)
    if timer not in turn.state.timers:
        _schedule(turn, timer, member.rebalance_timeout_ms)


def await_sync(turn: Turn, group: ConsumerGroup, member: ConsumerMemberRecord) -> None:
    """A classic member has joined and must ask for its assignment."""
    turn.state.timers.cancel(Timer(TimerKind.JOIN, group.group_id, member.member_id))
    _schedule(turn, Timer(TimerKind.SYNC, group.group_id, member.member_id), member.rebalance_timeout_ms)


def end_sync(turn: Turn, group: ConsumerGroup, member_id: str) -> None:
    turn.state.timers.cancel(Timer(TimerKind.SYNC, group.group_id, member_id))


def forget(turn: Turn, group: ConsumerGroup, member_id: str) -> None:
    turn.state.sights.pop((group.group_id, member_id), None)
    for kind in (TimerKind.SESSION, TimerKind.REVOCATION, TimerKind.JOIN, TimerKind.SYNC):
        turn.state.timers.cancel(Timer(kind, group.group_id, member_id))


def _schedule(turn: Turn, timer: Timer, delay_ms: int) -> None:
    turn.state.timers.schedule(timer, turn.now.steady_ms + delay_ms)

"""Deadlines of members: a session that heartbeats renew, and timeouts of revocations, joins and syncs."""

from __future__ import annotations

from qanat.groups.consumer.group import ConsumerGroup
from qanat.groups.consumer.records import ConsumerMemberRecord, CurrentAssignmentRecord, MemberState
from qanat.groups.decision_builder import DecisionBuilder
from qanat.groups.timers import Timer, TimerKind


def start(builder: DecisionBuilder, group: ConsumerGroup) -> None:
    """After a load every session starts again, and so does every revocation."""
    for member_id, member in group.members.items():
        renew_session(builder, group, member)
        watch_revocation(builder, group, member, group.current_of(member_id))


def renew_session(builder: DecisionBuilder, group: ConsumerGroup, member: ConsumerMemberRecord) -> None:
    if member.classic is not None:
        delay_ms = member.classic.session_timeout_ms
    else:
        delay_ms = builder.state.client_sessions_ms.get(member.client_id, 0)
        delay_ms = delay_ms or builder.group_overrides(group.group_id).consumer_session_timeout_ms
    _schedule(builder, Timer(TimerKind.SESSION, group.group_id, member.member_id), delay_ms)


def watch_revocation(
    builder: DecisionBuilder, group: ConsumerGroup, member: ConsumerMemberRecord, current: CurrentAssignmentRecord
) -> None:
    """A member must revoke within its rebalance timeout. Classic ones have theirs to join in (`request_join`)."""
    timer = Timer(TimerKind.REVOCATION, group.group_id, member.member_id)
    if current.state is MemberState.UNREVOKED and not member.is_classic:
        _schedule(builder, timer, member.rebalance_timeout_ms)
    else:
        builder.state.timers.cancel(timer)


def request_join(builder: DecisionBuilder, group: ConsumerGroup, member: ConsumerMemberRecord) -> None:
    """A classic member was asked to join; being asked again gives it no more time."""
    timer = Timer(TimerKind.JOIN, group.group_id, member.member_id)
    if timer not in builder.state.timers:
        _schedule(builder, timer, member.rebalance_timeout_ms)


def await_sync(builder: DecisionBuilder, group: ConsumerGroup, member: ConsumerMemberRecord) -> None:
    """A classic member has joined and must sync."""
    builder.state.timers.cancel(Timer(TimerKind.JOIN, group.group_id, member.member_id))
    _schedule(builder, Timer(TimerKind.SYNC, group.group_id, member.member_id), member.rebalance_timeout_ms)


def end_sync(builder: DecisionBuilder, group: ConsumerGroup, member_id: str) -> None:
    builder.state.timers.cancel(Timer(TimerKind.SYNC, group.group_id, member_id))


def forget(builder: DecisionBuilder, group: ConsumerGroup, member_id: str) -> None:
    builder.state.visibilities.pop((group.group_id, member_id), None)
    for kind in (TimerKind.SESSION, TimerKind.REVOCATION, TimerKind.JOIN, TimerKind.SYNC):
        builder.state.timers.cancel(Timer(kind, group.group_id, member_id))


def _schedule(builder: DecisionBuilder, timer: Timer, delay_ms: int) -> None:
    builder.state.timers.schedule(timer, builder.now.steady_ms + delay_ms)

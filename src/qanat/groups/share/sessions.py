"""Sessions of members of share groups: a heartbeat renews one, silence ends it."""

from __future__ import annotations

from qanat.groups.decision_builder import DecisionBuilder
from qanat.groups.share.group import ShareGroup
from qanat.groups.timers import Timer, TimerKind


def start(builder: DecisionBuilder, group: ShareGroup) -> None:
    """After a load every session starts again."""
    for member_id in group.members:
        renew(builder, group, member_id)


def renew(builder: DecisionBuilder, group: ShareGroup, member_id: str) -> None:
    timeout_ms = builder.group_overrides(group.group_id).share_session_timeout_ms
    timer = Timer(TimerKind.SESSION, group.group_id, member_id)
    builder.state.timers.schedule(timer, builder.now.steady_ms + timeout_ms)


def forget(builder: DecisionBuilder, group: ShareGroup, member_id: str) -> None:
    builder.state.timers.cancel(Timer(TimerKind.SESSION, group.group_id, member_id))

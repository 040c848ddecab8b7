"""Sessions of members of share groups: a heartbeat renews one, silence ends it."""

from __future__ import annotations

from qanat.groups.share.group import ShareGroup
from qanat.groups.timers import Timer, TimerKind
from qanat.groups.turn import Turn


def start(turn: Turn, group: ShareGroup) -> None:
    """After a load every session begins anew."""
    for member_id in group.members:
        renew(turn, group, member_id)


def renew(turn: Turn, group: ShareGroup, member_id: str) -> None:
    timeout_ms = turn.own_settings(group.group_id).share_session_timeout_ms
    timer = Timer(TimerKind.SESSION, group.group_id, member_id)
    turn.state.timers.schedule(timer, turn.now.steady_ms + timeout_ms)


def forget(turn: Turn, group: ShareGroup, member_id: str) -> None:
    turn.state.timers.cancel(Timer(TimerKind.SESSION, group.group_id, member_id))

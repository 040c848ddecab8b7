"""What a shard of groups waits for; deadlines themselves are kept in `model.timers`."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class TimerKind(IntEnum):
    """What is waited for."""

    SESSION = 0
    JOIN = 1
    SYNC = 2
    RETENTION = 3
    REVOCATION = 4


class Timer(NamedTuple):
    """A timer's name; setting it again moves it."""

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""

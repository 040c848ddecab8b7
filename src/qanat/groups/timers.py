"""Names of a shard's timers; `model.timers` holds the deadlines."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class TimerKind(IntEnum):
    """Kinds of timers."""

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

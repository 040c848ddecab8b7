"""The time, as coordinators are told it."""

from __future__ import annotations

from typing import NamedTuple


class Now(NamedTuple):
    """The time, twice: sessions must not end because somebody set the clock."""

    steady_ms: int
    """Never jumps; says nothing between processes. All deadlines are on it."""
    wall_ms: int
    """What is written into records, and what retention goes by."""

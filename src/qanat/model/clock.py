"""The time, as coordinators receive it."""

from __future__ import annotations

from typing import NamedTuple


class Now(NamedTuple):
    """The time, twice: a change of the system clock must not end sessions."""

    steady_ms: int
    """Never jumps; means nothing in another process. All deadlines use it."""
    wall_ms: int
    """The system clock: written into records, and used for retention."""

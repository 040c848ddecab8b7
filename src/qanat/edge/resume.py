"""Resume: where a subscriber continues, by its offset and the leader epoch of the record before it (KIP-320).

An offset alone does not say whether the log still holds what the subscriber has received: after an unclean election
other records may stand there. The epoch does: the log ended that epoch at some offset, and what the subscriber has
beyond it is gone.
"""

from __future__ import annotations

from dataclasses import dataclass

TRUNCATED, OUT_OF_RANGE, RECREATED = "truncated", "out-of-range", "recreated"
"""Why a position is void. `recreated`: the topic was deleted, and this is another one of its name."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What a log holds of interest here."""

    start: int
    end: int
    """The end of what can be read."""
    epoch_end: int | None
    """Where the subscriber's epoch ended in this log, or the last one before it; None where it named no epoch."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where to continue; with a reason, after a RESET."""

    offset: int
    why: str = ""


def resume(offset: int, extent: Extent) -> Resumed:
    """Where a subscriber at an offset continues."""
    if extent.epoch_end is not None and extent.epoch_end < offset:
        agreed = max(extent.epoch_end, extent.start)
        return Resumed(min(agreed, extent.end), TRUNCATED)
    if offset < extent.start:
        return Resumed(extent.start, OUT_OF_RANGE)
    if offset > extent.end:
        return Resumed(extent.end, TRUNCATED)
    return Resumed(offset)

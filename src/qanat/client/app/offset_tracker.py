"""Offsets of one partition: which records are unfinished, and up to where the group may commit.

Rule 1: the committable offset is the lowest unfinished one, or the next to be read where all are finished. It never
        retreats.
Rule 2: only unfinished offsets are stored, so that a million finished records behind a stuck one cost nothing here.
        How far others may run ahead of it is bounded by the caller, who asks for `ahead`.
"""

from __future__ import annotations


class OffsetTracker:
    """The unfinished offsets of one partition. Offsets begin in ascending order, and finish in any."""

    __slots__ = ("_unfinished", "next_offset")

    def __init__(self) -> None:
        self._unfinished: dict[int, None] = {}
        # A dict keeps the order of insertion, which is the order of offsets: its first key is the lowest.
        self.next_offset = -1
        """The offset after the last that has begun; -1 before the first."""

    def begin(self, offset: int) -> bool:
        """Whether the record is new: one below the next offset was read before."""
        if offset < self.next_offset:
            return False
        self._unfinished[offset] = None
        self.next_offset = offset + 1
        return True

    def finish(self, offset: int) -> None:
        del self._unfinished[offset]

    @property
    def unfinished(self) -> int:
        """How many records have begun and are not finished."""
        return len(self._unfinished)

    @property
    def committable(self) -> int:
        """The offset that may be committed; -1 where nothing has begun."""
        for lowest in self._unfinished:
            return lowest
        return self.next_offset

    @property
    def ahead(self) -> int:
        """How far reading is ahead of the committable offset: what a crash would handle again, at most."""
        return self.next_offset - self.committable

"""Offset translation: the map of a copy from old offsets to new ones, partition by partition. Pure.

In a run both count up one by one: records with the old offsets `old … old + rows - 1` have the new ones
`new … new + rows - 1`. Gaps on either side (markers of transactions, compaction) end a run.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple


class Run(NamedTuple):
    """Records that are consecutive on both sides."""

    old: int
    new: int
    rows: int


class PartitionMap:
    """One partition's runs, in order; three numbers for each."""

    def __init__(self) -> None:
        self._old = array("q")
        self._new = array("q")
        self._rows = array("q")

    def __len__(self) -> int:
        return len(self._old)

    @property
    def rows(self) -> int:
        """How many records were copied."""
        return sum(self._rows)

    @property
    def position(self) -> int:
        """The offset after the last old one that was copied; 0 if none was."""
        return self._old[-1] + self._rows[-1] if self._old else 0

    @property
    def end(self) -> int:
        """The offset after the last new one."""
        return self._new[-1] + self._rows[-1] if self._new else 0

    def add(self, run: Run) -> None:
        """Add the next run; skips a part that is known already, as when a map is read twice."""
        known = min(max(0, self.position - run.old), run.rows)
        old, new, rows = run.old + known, run.new + known, run.rows - known
        if not rows:
            return
        if self._old and old == self.position and new == self.end:
            self._rows[-1] += rows
            return
        self._old.append(old)
        self._new.append(new)
        self._rows.append(rows)

    def translate(self, offset: int) -> int | None:
        """The new offset of a reader's old one: the copy of the first record that it has not read.

        None before anything was copied; the end for an offset after everything that was copied.
        """
        if not self._old:
            return None
        index = bisect_right(self._old, offset) - 1
        if index < 0:
            return self._new[0]
        inside = offset - self._old[index]
        if inside < self._rows[index]:
            return self._new[index] + inside
        return self._new[index + 1] if index + 1 < len(self._new) else self.end


def placed(stretches: Iterable[tuple[int, int]], landed: Iterable[tuple[int, int]]) -> list[Run]:
    """Runs from stretches of old offsets `(first, rows)` that landed in parts, each `(new offset, rows)`, in order.

    >>> placed([(5, 2), (9, 3)], [(100, 3), (200, 2)])
    [Run(old=5, new=100, rows=2), Run(old=9, new=102, rows=1), Run(old=10, new=200, rows=2)]
    """
    found: list[Run] = []
    coming = iter(stretches)
    first = left = 0
    for new, rows in landed:
        while rows:
            if not left:
                first, left = next(coming)
            count = min(left, rows)
            found.append(Run(first, new, count))
            first, left, new, rows = first + count, left - count, new + count, rows - count
    return found

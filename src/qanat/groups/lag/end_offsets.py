"""End offsets of one partition over time: they say when a record was appended, without a look at the record.

A record at offset n was appended after the end was last seen at or before n, and before it was first seen behind n; in
between we interpolate. So each end carries two times. A quiet topic is one entry: a record that arrives after an hour
is not half an hour old.

Rule 1: entries are in the order of ends and times. An end that goes back (unclean election, a topic created again)
        begins anew.
Rule 2: there are never more entries than `capacity`. When it is reached, every second entry of the older half goes:
        the newest are dense, and the first one stays.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

_END, _FIRST, _LAST = 0, 1, 2
_WIDTH = 3
SMALLEST_CAPACITY = 4


class Age(NamedTuple):
    """How long a record has waited."""

    ms: float
    is_exact: bool
    """False where the record is older than the first entry: it has waited for that long, or longer."""


class EndOffsets:
    """The ends of one partition."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows = array("q")
        """Ends, when each was first seen, and when last, one after the other."""

    def __len__(self) -> int:
        return len(self._rows) // _WIDTH

    @property
    def end(self) -> int | None:
        """The newest end; None before the first observation."""
        return self._rows[-_WIDTH] if self._rows else None

    def observe(self, end: int, now_ms: int, capacity: int) -> None:
        """The end is here now."""
        rows = self._rows
        if rows and (end < rows[-_WIDTH] or now_ms < rows[-1]):
            del rows[:]
        if rows and end == rows[-_WIDTH]:
            rows[-1] = now_ms
            return
        rows.extend((end, now_ms, now_ms))
        while len(self) > max(capacity, SMALLEST_CAPACITY):
            self._thin()

    def age(self, offset: int, now_ms: int) -> Age:
        """How long the record at this offset has waited; 0 where it is not there yet."""
        rows = self._rows
        if not rows or offset >= rows[-_WIDTH]:
            return Age(0.0, is_exact=True)
        if offset < rows[_END]:
            return Age(float(max(now_ms - rows[_FIRST], 0)), is_exact=False)
        behind = self._first_behind(offset) * _WIDTH
        before = behind - _WIDTH
        earliest_ms, latest_ms = rows[before + _LAST], rows[behind + _FIRST]
        share = (offset + 1 - rows[before + _END]) / (rows[behind + _END] - rows[before + _END])
        return Age(max(now_ms - (earliest_ms + (latest_ms - earliest_ms) * share), 0.0), is_exact=True)

    def _first_behind(self, offset: int) -> int:
        """The first entry whose end is behind an offset."""
        low, high = 1, len(self) - 1
        while low < high:
            middle = (low + high) // 2
            if self._rows[middle * _WIDTH] > offset:
                high = middle
            else:
                low = middle + 1
        return low

    def _thin(self) -> None:
        count = len(self)
        dropped = range(1, max(count // 2, 2), 2)
        kept = array("q")
        for number in range(count):
            if number not in dropped:
                kept.extend(self._rows[number * _WIDTH : (number + 1) * _WIDTH])
        self._rows = kept

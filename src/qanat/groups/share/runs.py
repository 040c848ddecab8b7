"""The records that a share group has acquired and not passed yet, as runs of equal neighbours.

A run holds what a range of offsets has in common, so that a batch of a thousand records which one member
acquired costs as much as a single one. Runs have no gaps between `start_offset` and `end_offset`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from enum import StrEnum
from operator import attrgetter

from qanat.groups.share.record_states import RecordState, StateBatch

NO_MEMBER = ""
_FIRST, _LAST = attrgetter("first"), attrgetter("last")
_DONE = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class Cause(StrEnum):
    """Why a record is archived."""

    REJECTED = "rejected"
    DELIVERED_TOO_OFTEN = "delivery count limit reached"


class Run:
    """Neighbouring records of one state, one delivery count and one holder."""

    __slots__ = ("cause", "count", "first", "last", "member", "state", "until_ms")

    def __init__(
        self, first: int, last: int, state: RecordState, count: int = 0, member: str = NO_MEMBER, until_ms: int = 0
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.count = count
        """How often the records were delivered."""
        self.member = member
        """The member that holds them."""
        self.until_ms = until_ms
        """Of acquired records: the end of their lock. Of available ones: the end of their delay."""
        self.cause: Cause | None = None

    def __repr__(self) -> str:
        holder = f" by {self.member}" if self.member else ""
        return f"<Run {self.first}-{self.last} {self.state.name}{holder} x{self.count} until {self.until_ms}>"

    def __len__(self) -> int:
        return self.last - self.first + 1

    def part(self, first: int, last: int) -> Run:
        """The same for some of its records."""
        part = Run(first, last, self.state, self.count, self.member, self.until_ms)
        part.cause = self.cause
        return part

    @property
    def is_done(self) -> bool:
        return self.state in _DONE

    @property
    def batch(self) -> StateBatch:
        return StateBatch(self.first, self.last, self.state, self.count)

    def is_like(self, other: Run) -> bool:
        return (
            self.state is other.state
            and self.count == other.count
            and self.member == other.member
            and self.until_ms == other.until_ms
            and self.cause is other.cause
        )


class Runs:
    """See the module. A caller changes runs that it got from `between`, and calls `settle` afterwards."""

    __slots__ = ("_runs", "end_offset", "start_offset")

    def __init__(self, start_offset: int) -> None:
        self._runs: list[Run] = []
        self.start_offset = start_offset
        self.end_offset = start_offset

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def append(self, run: Run) -> None:
        """Add records right behind the last one."""
        assert run.first == self.end_offset <= run.last, run
        self.end_offset = run.last + 1
        if self._runs and self._runs[-1].is_like(run):
            self._runs[-1].last = run.last
        else:
            self._runs.append(run)

    def overlapping(self, first: int, last: int) -> list[Run]:
        """The runs that have records between two offsets, whole."""
        return self._runs[bisect_left(self._runs, first, key=_LAST) : bisect_right(self._runs, last, key=_FIRST)]

    def between(self, first: int, last: int) -> list[Run]:
        """The runs that make up exactly these records, as far as they are in any, split where need be."""
        if first > last:
            return []
        begin = self._cut(first)
        end = self._cut(last + 1)
        return self._runs[begin:end]

    def carved(self, ranges: Sequence[tuple[int, int, int]]) -> list[tuple[Run, int]]:
        """The runs that make up exactly these records, each with the number of its range, all split at once.

        Ranges are in order and apart, and lie between start and end.
        """
        if not ranges:
            return []
        begin = bisect_left(self._runs, ranges[0][0], key=_LAST)
        end = bisect_right(self._runs, ranges[-1][1], key=_FIRST)
        cut: list[Run] = []
        found: list[tuple[Run, int]] = []
        left = iter(ranges)
        wanted = next(left, None)
        for run in self._runs[begin:end]:
            first, last = run.first, run.last
            while wanted is not None and wanted[0] <= last:
                if first < wanted[0]:
                    cut.append(run.part(first, wanted[0] - 1))
                    first = wanted[0]
                piece = run.part(first, min(last, wanted[1]))
                cut.append(piece)
                found.append((piece, wanted[2]))
                first = piece.last + 1
                if wanted[1] > last:
                    break  # It continues in the next run.
                wanted = next(left, None)
            if first <= last:
                cut.append(run.part(first, last))
        self._runs[begin:end] = cut
        return found

    def _cut(self, offset: int) -> int:
        """The index of the run that starts at an offset, split if need be, or of the first one behind it."""
        place = bisect_left(self._runs, offset, key=_LAST)
        if place < len(self._runs) and self._runs[place].first < offset:
            run = self._runs[place]
            rest = run.part(offset, run.last)
            run.last = offset - 1
            place += 1
            self._runs.insert(place, rest)
        return place

    def settle(self, first: int, last: int) -> None:
        """Join equal runs around some records, and drop finished ones at the beginning."""
        begin = bisect_left(self._runs, first - 1, key=_LAST)
        end = bisect_right(self._runs, last + 1, key=_FIRST)
        kept: list[Run] = []
        for run in self._runs[begin:end]:
            if kept and kept[-1].is_like(run):
                kept[-1].last = run.last
            else:
                kept.append(run)
        self._runs[begin:end] = kept
        self._advance()

    def _advance(self) -> None:
        done = 0
        for run in self._runs:
            if not run.is_done:
                break
            done += 1
        del self._runs[:done]
        self.start_offset = self._runs[0].first if self._runs else self.end_offset

    def forget_before(self, offset: int) -> None:
        """Drop records that no longer exist."""
        del self._runs[: self._cut(offset)]
        self.end_offset = max(self.end_offset, offset)
        self._advance()

"""The lag of one group over a day: every pass of the last hour, and one a minute of the day before.

Rule: no more than `capacity` points, a fifth of them fine; a lag that stays the same needs two points, its first and
      its last.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

FINE_MS = 3_600_000
COARSE_MS = 24 * FINE_MS
COARSE_STEP_MS = 60_000
FULL_CAPACITY = 1800
"""An hour at ten seconds, and a day at one minute."""
SMALLEST_CAPACITY = 20


class LagPoint(NamedTuple):
    """The lag of a group at one time."""

    at_ms: int
    records: int
    seconds: float


class _Series:
    """Points of one step, oldest first."""

    __slots__ = ("_records", "_seconds", "_times")

    def __init__(self) -> None:
        self._times = array("q")
        self._records = array("q")
        self._seconds = array("d")

    def __len__(self) -> int:
        return len(self._times)

    @property
    def last_ms(self) -> int | None:
        return self._times[-1] if self._times else None

    def append(self, point: LagPoint, oldest_ms: int, capacity: int) -> None:
        if self._repeats(point):
            self._times[-1] = point.at_ms
        else:
            self._times.append(point.at_ms)
            self._records.append(point.records)
            self._seconds.append(point.seconds)
        gone = max(len(self) - capacity, 0)
        while gone < len(self) - 1 and self._times[gone] < oldest_ms:
            gone += 1
        if gone:
            del self._times[:gone], self._records[:gone], self._seconds[:gone]

    def _repeats(self, point: LagPoint) -> bool:
        """Whether a point says the same as the two before it."""
        return (
            len(self) >= 2
            and self._records[-1] == self._records[-2] == point.records
            and self._seconds[-1] == self._seconds[-2] == point.seconds
        )

    def points(self) -> list[LagPoint]:
        return [LagPoint(*row) for row in zip(self._times, self._records, self._seconds, strict=True)]


class LagHistory:
    """The lag of one group."""

    __slots__ = ("_coarse", "_coarse_step", "_fine")

    def __init__(self) -> None:
        self._fine = _Series()
        self._coarse = _Series()
        self._coarse_step: int | None = None
        """The minute of the newest coarse point."""

    def __len__(self) -> int:
        return len(self._fine) + len(self._coarse)

    def append(self, point: LagPoint, capacity: int) -> None:
        """The lag now; `point.at_ms` never goes back."""
        capacity = min(max(capacity, SMALLEST_CAPACITY), FULL_CAPACITY)
        fine = capacity // 5
        self._fine.append(point, point.at_ms - FINE_MS, fine)
        step = point.at_ms // COARSE_STEP_MS
        if step != self._coarse_step:
            self._coarse_step = step
            self._coarse.append(point, point.at_ms - COARSE_MS, capacity - fine)

    def points(self) -> list[LagPoint]:
        """All points, oldest first: coarse ones as long as there are no fine ones."""
        fine = self._fine.points()
        return [one for one in self._coarse.points() if not fine or one.at_ms < fine[0].at_ms] + fine

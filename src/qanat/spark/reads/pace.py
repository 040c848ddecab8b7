"""Pace: the share of a micro-batch's limits that takes about a target time (`targetBatchTime`). Pure.

The time of a micro-batch is that from its plan to the next one. Where a trigger waits for its interval, that is longer
than the micro-batch took; so a time that is near the target counts as too short, and the share grows until
micro-batches do take that long. Where smaller micro-batches only cost rows a second, because a micro-batch has costs of
its own, the share grows back and stays.
"""

from __future__ import annotations

FIRST_SHARE = 1 / 8
"""Of the first micro-batch, in which Spark starts processes and compiles."""
LEAST_SHARE = 1 / 16
_MOST_GROWTH, _MOST_CUT, _SLOW_GROWTH = 2.0, 0.5, 1.25
_NEAR = 0.1
_TOO_LONG = 1.5
"""Times the target: until then, a micro-batch is as long as it should be."""
_IN_VAIN = 0.8
"""A share that brings less than this part of the rows a second is too small."""


class Pace:
    """The share of the limits, which follows the time of micro-batches."""

    def __init__(self, target_s: float) -> None:
        self._target_s = target_s
        self._planned_at: float | None = None
        self._least = LEAST_SHARE
        self._before: tuple[float, float] | None = None
        """Share and speed of the micro-batch before the last."""
        self.share = FIRST_SHARE

    def begin(self, now: float) -> None:
        """A plan begins: the micro-batch before, if it was as large as it might be, took until now."""
        if self._planned_at is None:
            return
        seconds = max(now - self._planned_at, 0.001)
        self._planned_at = None
        before, self._before = self._before, (self.share, self.share / seconds)
        if before is not None and self.share < before[0] and self.share / seconds < _IN_VAIN * before[1]:
            self._least = self.share = before[0]
            return
        self.share = min(1.0, max(self._least, self.share * growth(seconds, self._target_s)))

    def end(self, now: float, *, is_cut: bool) -> None:
        """A micro-batch is planned; `is_cut` if it has less than there is."""
        self._planned_at = now if is_cut else None

    def of(self, limit: int) -> int:
        return max(1, int(limit * self.share))


def growth(seconds: float, target_s: float) -> float:
    """The factor of the next micro-batch's share, after one that took so long.

    >>> growth(5.0, 10.0), growth(10.5, 10.0), growth(14.0, 10.0), growth(60.0, 10.0)
    (2.0, 1.25, 1.0, 0.5)
    """
    if abs(seconds - target_s) <= target_s * _NEAR:
        return _SLOW_GROWTH
    if seconds < target_s:
        return min(_MOST_GROWTH, target_s / seconds)
    return 1.0 if seconds <= target_s * _TOO_LONG else max(_MOST_CUT, target_s / seconds)

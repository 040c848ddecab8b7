# cython: language_level=3, annotation_typing=False
"""Histogram: numbers sorted into buckets, with their count and sum."""

from __future__ import annotations

from bisect import bisect_left

SECONDS = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
"""Bounds for durations: from one small request to longer than any client waits."""
POWERS_OF_TWO = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Bounds for counts per group."""


class Histogram:
    """`observe` is one search among a handful of bounds and two additions."""

    __slots__ = ("_lowest", "bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self._lowest = bounds[0]
        self.counts = [0] * (len(bounds) + 1)
        """One per bucket, not cumulative; the last is for values above every bound."""
        self.total = 0.0

    def __repr__(self) -> str:
        return f"Histogram({self.count} values, {self.total} in all)"

    def observe(self, value: float) -> None:
        self.counts[0 if value <= self._lowest else bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)

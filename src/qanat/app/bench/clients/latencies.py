"""Latencies in an HdrHistogram: microseconds up to an hour, three significant digits.

One record costs an append; the histogram's own two microseconds are paid once per distinct value.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

LONGEST_US = 3_600_000_000
SHARES = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p99.9": 99.9}
_DIGITS = 3
_PENDING_MAX = 1 << 16
_CURVE_STEPS_PER_HALVING = 5


class Latencies:
    """Latencies of one thread; merged with others at the end."""

    def __init__(self) -> None:
        from hdrh.histogram import HdrHistogram

        self._histogram: Any = HdrHistogram(1, LONGEST_US, _DIGITS)
        self._pending: list[int] = []
        self._largest_us = 0

    def record(self, microseconds: int) -> None:
        self._pending.append(microseconds)
        if len(self._pending) >= _PENDING_MAX:
            self._fold()

    def add(self, encoded: str, largest_us: int) -> None:
        """Merge those of another process, from its `encoded` and `largest_us`."""
        if encoded:
            self._histogram.decode_and_add(encoded)
            self._largest_us = max(self._largest_us, largest_us)

    def reset(self) -> None:
        """Drop the latencies of the warm-up."""
        self._pending.clear()
        self._histogram.reset()
        self._largest_us = 0

    @property
    def count(self) -> int:
        self._fold()
        return int(self._histogram.get_total_count())

    @property
    def largest_us(self) -> int:
        """Exact, which the histogram's own is not."""
        self._fold()
        return self._largest_us

    def encoded(self) -> str:
        """HdrHistogram's own form, base64; empty where nothing was counted."""
        return self._histogram.encode().decode() if self.count else ""

    def summary(self) -> dict[str, float]:
        """Milliseconds by name; empty where nothing was counted."""
        if not self.count:
            return {}
        shares = {name: self.at(share) for name, share in SHARES.items()}
        return {**shares, "max": self.largest_us / 1000, "mean": round(self._histogram.get_mean_value() / 1000, 3)}

    def at(self, percentile: float) -> float:
        """Milliseconds; never above the largest."""
        self._fold()
        return float(min(self._histogram.get_value_at_percentile(percentile), self._largest_us)) / 1000

    def curve(self) -> list[tuple[float, float]]:
        """Percentile and milliseconds, denser towards 100, as in HdrHistogram's own plots."""
        if not self.count:
            return []
        steps = self._histogram.get_percentile_iterator(_CURVE_STEPS_PER_HALVING)
        return [
            (step.percentile_level_iterated_to, min(step.value_iterated_to, self._largest_us) / 1000)
            for step in steps
            if step.percentile_level_iterated_to < 100
        ]

    def _fold(self) -> None:
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        self._largest_us = max(self._largest_us, min(max(pending), LONGEST_US))
        for value, count in Counter(pending).items():
            self._histogram.record_value(min(max(value, 0), LONGEST_US), count)

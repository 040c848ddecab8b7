"""Lifelike measurements of a small fleet for the log's chapters, and their totals to compare with."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from qanat.wire.records import Record

HOSTS = [f"web-{number:02d}" for number in range(1, 9)] + [f"db-{number:02d}" for number in range(1, 5)]
_START_MS = 1_750_000_000_000


@dataclass(slots=True)
class Totals:
    """Count, sum and maximum per host."""

    count: dict[str, int] = field(default_factory=dict)
    sum: dict[str, float] = field(default_factory=dict)
    max: dict[str, float] = field(default_factory=dict)

    def add(self, host: str, value: float) -> None:
        self.count[host] = self.count.get(host, 0) + 1
        self.sum[host] = self.sum.get(host, 0.0) + value
        self.max[host] = max(self.max.get(host, value), value)

    def agrees_with(self, other: Totals) -> bool:
        """Counts and maxima exactly, sums up to rounding (they are added in another order)."""
        sums_agree = self.sum.keys() == other.sum.keys() and all(
            math.isclose(self.sum[host], other.sum[host], rel_tol=1e-9) for host in self.sum
        )
        return self.count == other.count and self.max == other.max and sums_agree


def measurements(seed: int, count: int, totals: Totals) -> Iterator[Record]:
    """CPU load by host, one every 10 ms, with a daily wave, noise and rare spikes."""
    random = Random(seed)
    for number in range(count):
        host = random.choice(HOSTS)
        timestamp = _START_MS + number * 10
        wave = 40 + 25 * math.sin(number / 50_000)
        value = round(max(0.0, min(100.0, random.gauss(wave, 8) + (50 if random.random() < 0.001 else 0))), 2)
        totals.add(host, value)
        body = json.dumps({"metric": "cpu.load", "host": host, "ts": timestamp, "value": value, "unit": "percent"})
        yield Record(number, timestamp, host.encode(), body.encode())

"""Measurements of a small fleet of servers, and the results that the pipeline must find.

Some measurements are sent twice, some come late, some much too late, some are broken. A seed decides all of them; the
expected results are computed from the same draws.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

SOURCES = [f"web-{number:02d}" for number in range(1, 7)] + [f"db-{number:02d}" for number in range(1, 3)]
EVERY_MS = 5_000
LATENESS_MS = 10 * 60_000
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
SIZES_MS = {"1m": MINUTE_MS, "5m": 5 * MINUTE_MS, "1h": HOUR_MS}
_BROKEN = (
    b"not JSON at all",
    b'{"id": "x", "metric": "cpu.load"',
    b'{"id": "", "metric": "cpu.load", "source": "web-01", "time": 1, "value": 1}',
    b'{"id": "y", "metric": "cpu.load", "source": "web-01", "time": "noon", "value": 1.0}',
    b'{"id": "z", "metric": "cpu.load", "source": "web-01", "time": 1}',
    b"\xff\xfe\x00",
    b"",
)


class Sent(NamedTuple):
    """A record, and when it arrives."""

    key: bytes
    value: bytes
    arrival_ms: int


class Spot(NamedTuple):
    """The key of a rollup."""

    metric: str
    source: str
    window: str
    start_ms: int


@dataclass(slots=True)
class Truth:
    """The expected results of the pipeline."""

    sent: int = 0
    accepted: int = 0
    duplicates: int = 0
    broken: int = 0
    late: int = 0
    minutes: dict[tuple[str, str, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    """The values of every minute."""

    def accept(self, metric: str, source: str, time_ms: int, value: float) -> None:
        self.accepted += 1
        self.minutes[metric, source, time_ms - time_ms % MINUTE_MS].append(value)

    def windows(self) -> dict[Spot, list[float]]:
        """The values in every window of every size."""
        found: dict[Spot, list[float]] = defaultdict(list)
        for (metric, source, start_ms), values in self.minutes.items():
            for window, size in SIZES_MS.items():
                found[Spot(metric, source, window, start_ms - start_ms % size)] += values
        return found


def _load(random: Random, hour: float, source: str) -> float:
    return min(1.0, max(0.01, 0.35 + 0.25 * math.sin(hour * math.pi / 1.5) + random.gauss(0, 0.06)))


def _latency(random: Random, hour: float, source: str) -> float:
    spike = 4.0 if source == "web-03" and 1.4 < hour < 1.7 else 1.0
    return random.lognormvariate(3.4 + 0.4 * math.sin(hour * math.pi / 1.5), 0.5) * spike


def _memory(random: Random, hour: float, source: str) -> float:
    return 2.0e9 + 4.0e8 * (hour % 1.0) + random.gauss(0, 2e7)


def _disk(random: Random, hour: float, source: str) -> float:
    return 40.0 + hour * 1.5 + random.random()


METRICS: dict[str, Callable[[Random, float, str], float]] = {
    "cpu.load": _load,
    "http.latency_ms": _latency,
    "memory.bytes": _memory,
    "disk.percent": _disk,
}


def measure(start_ms: int, minutes: int, truth: Truth, seed: int = 1, every_ms: int = EVERY_MS) -> Iterator[Sent]:
    """All records in the order of arrival, and at the end one of each source that closes all windows."""
    random = Random(seed)
    waiting: list[Sent] = []
    end_ms = start_ms + minutes * MINUTE_MS
    for minute_ms in range(start_ms, end_ms, MINUTE_MS):
        for now in range(minute_ms, minute_ms + MINUTE_MS, every_ms):
            hour = (now - start_ms) / HOUR_MS
            for source in SOURCES:
                for metric, curve in METRICS.items():
                    waiting.extend(_made(random, metric, source, now, curve(random, hour, source), truth))
        arrived = [sent for sent in waiting if sent.arrival_ms < minute_ms + MINUTE_MS]
        waiting = [sent for sent in waiting if sent.arrival_ms >= minute_ms + MINUTE_MS]
        yield from sorted(arrived, key=_arrival)
    yield from sorted(waiting, key=_arrival)
    after = end_ms + HOUR_MS + LATENESS_MS + 20 * MINUTE_MS
    for source in SOURCES:
        truth.sent += 1
        said = {"id": f"alive-{source}", "metric": "alive", "source": source, "time": after, "value": 1.0}
        yield Sent(source.encode(), json.dumps(said).encode(), after)


def _arrival(sent: Sent) -> int:
    return sent.arrival_ms


def _made(random: Random, metric: str, source: str, now: int, value: float, truth: Truth) -> Iterator[Sent]:
    value = round(value, 3)
    # The id identifies a measurement and its duplicates.
    name = f"{random.getrandbits(64):016x}"
    said = f'{{"id": "{name}", "metric": "{metric}", "source": "{source}", "time": {now}, "value": {value}}}'
    record = Sent(source.encode(), said.encode(), now + int(random.random() * 2950) + 50)
    chance = random.random()
    truth.sent += 1
    if chance < 0.004:
        truth.broken += 1
        yield record._replace(value=random.choice(_BROKEN))
        return
    if chance < 0.007:
        truth.late += 1
        yield record._replace(arrival_ms=now + LATENESS_MS + random.randrange(1, 30 * MINUTE_MS))
        return
    if chance < 0.03:
        record = record._replace(arrival_ms=now + random.randrange(3000, LATENESS_MS))
    truth.accept(metric, source, now, value)
    yield record
    if chance > 0.99:
        truth.sent += 1
        truth.duplicates += 1
        yield record._replace(arrival_ms=record.arrival_ms + random.randrange(0, 20_000))

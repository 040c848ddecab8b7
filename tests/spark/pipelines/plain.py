"""The expected output of the pipeline `metrics`, computed from the records of its input topic without Spark."""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from qanat.testing import StoredRecord

SIZES = {"1m": 60_000, "5m": 300_000, "1h": 3_600_000}
LATENESS_MS, AHEAD_MS = 600_000, 60_000

Window = tuple[str, str, str, int]
"""Metric, source, size, start."""
Place = tuple[int, int]
"""Partition and offset."""


@dataclass
class Expected:
    windows: dict[Window, list[float]] = field(default_factory=lambda: defaultdict(list))
    dead: dict[Place, str] = field(default_factory=dict)
    """The first word of the reason."""
    duplicates: int = 0


def expected(records: Iterable[StoredRecord]) -> Expected:
    found, seen = Expected(), set()
    for record in records:
        said = _parsed(record.value)
        reason = _reason(said, record.timestamp) if record.value is not None else "it"
        if reason is not None:
            found.dead[record.partition, record.offset] = reason
        elif said["id"] in seen:
            found.duplicates += 1
        else:
            seen.add(said["id"])
            for size, length in SIZES.items():
                start = said["time"] // length * length
                found.windows[said["metric"], said["source"], size, start].append(float(said["value"]))
    return found


def _parsed(value: bytes | None) -> Any:
    try:
        return json.loads(value or b"")
    except ValueError:
        return None


def _reason(said: Any, timestamp: int) -> str | None:
    if not isinstance(said, dict):
        return "it"
    for name in ("id", "metric", "source"):
        if not isinstance(said.get(name), str) or not said[name]:
            return name
    if not isinstance(said.get("time"), int):
        return "time"
    if not isinstance(said.get("value"), int | float):
        return "value"
    if not math.isfinite(said["value"]):
        return "value"
    if said["time"] > timestamp + AHEAD_MS:
        return "time"
    return "late:" if said["time"] < timestamp - LATENESS_MS else None


def closed(windows: dict[Window, list[float]], watermark_ms: int) -> dict[Window, dict[str, float]]:
    """The windows that are over, rolled up."""
    return {
        window: _rolled(values)
        for window, values in windows.items()
        if window[3] + SIZES[window[2]] <= watermark_ms
    }  # fmt: skip


def _rolled(values: list[float]) -> dict[str, float]:
    rolled = {
        "count": len(values),
        "sum": math.fsum(values),
        "min": min(values),
        "max": max(values),
        "mean": statistics.fmean(values),
    }
    # Of one value there are no quantiles for the standard library; all of them are that value.
    cuts = statistics.quantiles(values, n=100, method="inclusive") if len(values) > 1 else values * 99
    return {**rolled, "p50": cuts[49], "p95": cuts[94], "p99": cuts[98]}

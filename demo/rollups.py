"""The pipeline's rollups, read without Spark, and compared with the expected ones."""

from __future__ import annotations

import json
import math
from dataclasses import astuple, dataclass, fields
from datetime import UTC
from pathlib import Path

from demo.claims import claim
from demo.fleet import Spot, Truth

_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Rollup:
    """The aggregates of one window."""

    count: int
    sum: float
    min: float
    max: float
    mean: float
    p50: float
    p95: float
    p99: float


_FIELDS = [field.name for field in fields(Rollup)]
QUANTILES = ("p50", "p95", "p99")


def read_topic(address: str, topic: str) -> list[tuple[bytes, dict[str, str]]]:
    """Values and headers of all committed records."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "demo", "enable.partition.eof": True, "enable.auto.commit": False}
    )
    partitions = list(consumer.list_topics(topic, _TIMEOUT_S).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    found, ended = [], 0
    while ended < len(partitions):
        messages = consumer.consume(5000, _TIMEOUT_S)
        claim(bool(messages), f"topic {topic} can be read to its end")
        for message in messages:
            if message.error() is not None:
                ended += 1
                continue
            headers = {name: _text(value) for name, value in dict(message.headers() or ()).items()}
            found.append((bytes(message.value() or b""), headers))
    consumer.close()
    return found


def _text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""


def from_topic(address: str, topic: str) -> dict[Spot, Rollup]:
    """The rollups in the topic; a window that is there twice fails the claim."""
    found: dict[Spot, Rollup] = {}
    for value, _ in read_topic(address, topic):
        row = json.loads(value)
        spot = Spot(row["metric"], row["source"], row["window"], row["start"])
        claim(spot not in found, f"{spot} is in the topic once")
        found[spot] = Rollup(*(row[name] for name in _FIELDS))
    return found


def from_lake(folder: Path) -> dict[Spot, Rollup]:
    """The rollups in the Parquet files."""
    import pyarrow.dataset  # type: ignore[import-untyped]

    table = pyarrow.dataset.dataset(
        folder, format="parquet", partitioning="hive", exclude_invalid_files=True
    ).to_table()
    found: dict[Spot, Rollup] = {}
    for row in table.to_pylist():
        start = row["start"].replace(tzinfo=UTC)
        spot = Spot(row["metric"], row["source"], row["window"], round(start.timestamp() * 1000))
        claim(spot not in found, f"{spot} is in the lake once")
        found[spot] = Rollup(*(row[name] for name in _FIELDS))
    return found


def expected(truth: Truth) -> dict[Spot, Rollup]:
    """The expected rollups, computed from the records sent."""
    return {spot: _rolled(sorted(values)) for spot, values in truth.windows().items()}


def _rolled(values: list[float]) -> Rollup:
    total = math.fsum(values)
    quantiles = (_quantile(values, share) for share in (0.5, 0.95, 0.99))
    return Rollup(len(values), total, values[0], values[-1], total / len(values), *quantiles)


def _quantile(values: list[float], share: float) -> float:
    """The quantile by linear interpolation."""
    place = (len(values) - 1) * share
    below = math.floor(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


def agree(found: dict[Spot, Rollup], wanted: dict[Spot, Rollup], quantile_error: float = 0.0) -> bool:
    """Whether all windows are there and equal, sums up to rounding and quantiles within an error."""
    return found.keys() == wanted.keys() and all(
        math.isclose(mine, theirs, rel_tol=1e-9 + (quantile_error if name in QUANTILES else 0.0), abs_tol=1e-9)
        for spot, rollup in wanted.items()
        for name, mine, theirs in zip(_FIELDS, astuple(found[spot]), astuple(rollup), strict=True)
    )

"""Intake: the task of one topic partition judges its records and packs them by shard.

Every shard gets at least one parcel of every task, with the newest time of the task's partition: so each shard knows
how far all partitions have been read, and closes the same windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from qanat.spark.rollups.chunks import Measured, measured, numbers, pack
from qanat.spark.rollups.measurements import judge
from qanat.spark.rollups.output import dead_letters
from qanat.spark.rollups.rules import Rules

SHARDS = 8
"""Part of the state's form: with another number, a series would be in another shard than its state."""
ROWS_AT_ONCE = 1 << 16

PARCEL = pa.schema(
    [
        ("shard", pa.int32()),
        ("at", pa.string()),
        ("newest_ms", pa.int64()),
        ("rows", pa.binary()),
        ("names", pa.binary()),
        ("dead", pa.binary()),
    ]
)
"""What a task sends to a shard: measurements, or dead letters, or only how far its partition has been read."""
PARCEL_DDL = "shard int, at string, newest_ms bigint, rows binary, names binary, dead binary"


@dataclass(slots=True)
class _Waiting:
    """Measurements that are not packed yet."""

    parts: list[Measured] = field(default_factory=list)
    count: int = 0

    def add(self, part: Measured) -> None:
        self.parts.append(part)
        self.count += part.rows.num_rows

    def take(self) -> Iterator[pa.RecordBatch]:
        if not self.count:
            return
        rows = pa.concat_tables([part.rows for part in self.parts]).combine_chunks()
        names = (
            pa.concat_tables([part.names for part in self.parts])
            .group_by("series")
            .aggregate([("metric", "min"), ("source", "min")])
        )
        names = names.select(["series", "metric_min", "source_min"]).rename_columns(["series", "metric", "source"])
        shards, named = _shards(rows), _shards(names)
        for shard in range(SHARDS):
            chosen = np.flatnonzero(shards == shard)
            if len(chosen):
                known = names.take(pa.array(np.flatnonzero(named == shard)))
                yield _parcel(shard, rows=pack(rows.take(pa.array(chosen))), names=pack(known))
        self.parts, self.count = [], 0


def intake(batches: Iterable[pa.RecordBatch], rules: Rules, dead_topic: str) -> Iterator[pa.RecordBatch]:
    """Parcels of the records of a task."""
    waiting = _Waiting()
    newest_ms: dict[str, int] = {}
    for batch in batches:
        if not batch.num_rows:
            continue
        timestamps = numbers(pa.chunked_array([batch.column("timestamp").cast(pa.timestamp("ms")).cast(pa.int64())]))
        judged = judge(batch.column("value").to_pylist(), timestamps, rules)
        for at, newest in _newest(batch, timestamps, judged.times_ms, judged.dead).items():
            newest_ms[at] = max(newest, newest_ms.get(at, newest))
        if judged.dead:
            shard = batch.column("partition")[0].as_py() % SHARDS
            yield _parcel(shard, dead=pack(dead_letters(batch, judged.dead, dead_topic)))
        waiting.add(measured(judged))
        if waiting.count >= ROWS_AT_ONCE:
            yield from waiting.take()
    yield from waiting.take()
    for at, newest in newest_ms.items():
        for shard in range(SHARDS):
            yield _parcel(shard, at, newest)


def _shards(table: pa.Table) -> NDArray[np.uint64]:
    return numbers(table.column("series")).view(np.uint64) % np.uint64(SHARDS)


def _newest(
    batch: pa.RecordBatch,
    timestamps: NDArray[np.int64],
    times_ms: NDArray[np.int64],
    dead: dict[int, str],
) -> dict[str, int]:
    """The newest time by partition; where there is no measurement, the oldest of the log: it has come to that."""
    newest = int(timestamps.min() if len(dead) == batch.num_rows else times_ms.max())
    places = pc.unique(batch.column("partition")).to_pylist()
    topics = pc.unique(batch.column("topic")).to_pylist()
    return {f"{topic}-{partition}": newest for topic in topics for partition in places}


def _parcel(
    shard: int,
    at: str | None = None,
    newest_ms: int | None = None,
    *,
    rows: bytes | None = None,
    names: bytes | None = None,
    dead: bytes | None = None,
) -> pa.RecordBatch:
    columns = [[shard], [at], [newest_ms], [rows], [names], [dead]]
    return pa.record_batch(
        [pa.array(column, kind.type) for column, kind in zip(columns, PARCEL, strict=True)], schema=PARCEL
    )

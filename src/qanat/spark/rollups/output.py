"""Output: closed windows and dead letters as records of topics."""

from __future__ import annotations

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]

from qanat.model.dead_letters import Origin

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
RECORD = pa.schema(
    [
        ("topic", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("headers", pa.list_(HEADER)),
    ]
)
RECORD_DDL = (
    "topic string, key binary, value binary, timestamp timestamp, headers array<struct<key: string, value: binary>>"
)
FIELDS = ("metric", "source", "window", "start", "end", "count", "sum", "min", "max", "mean", "p50", "p95", "p99")
"""The fields of a rollup, in the order of its JSON."""


def dead_letters(batch: pa.RecordBatch, dead: dict[int, str], topic: str) -> pa.Table:
    """Rejected records with key, value, timestamp and headers, and headers that say where they were and why."""
    rows = batch.take(pa.array(list(dead), pa.int64()))
    places = zip(
        rows.column("headers").to_pylist(),
        rows.column("topic").to_pylist(),
        rows.column("partition").to_pylist(),
        rows.column("offset").to_pylist(),
        rows.column("timestamp").cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64()).to_pylist(),
        dead.values(),
        strict=True,
    )
    headers = [
        [*(headers or ()), *_origin(Origin(name, partition, offset, reason, timestamp_ms=timestamp_ms))]
        for headers, name, partition, offset, timestamp_ms, reason in places
    ]
    columns = [
        pa.array([topic] * rows.num_rows, pa.string()),
        rows.column("key"),
        rows.column("value"),
        rows.column("timestamp").cast(RECORD.field("timestamp").type),
        pa.array(headers, RECORD.field("headers").type),
    ]
    return pa.table(columns, schema=RECORD)


def _origin(origin: Origin) -> list[dict[str, object]]:
    return [{"key": name, "value": value} for name, value in origin.headers()]


def rollup_records(rollups: pa.Table, topic: str) -> pa.Table:
    """Rollups with the columns of `FIELDS` as records: JSON under metric/source/window, at the window's end."""
    rows = rollups.select(list(FIELDS)).to_pylist()
    columns = [
        pa.array([topic] * len(rows), pa.string()),
        pa.array([f"{row['metric']}/{row['source']}/{row['window']}".encode() for row in rows], pa.binary()),
        pa.array([msgspec.json.encode(row) for row in rows], pa.binary()),
        pa.array([row["end"] * 1000 for row in rows], pa.int64()).cast(RECORD.field("timestamp").type),
        pa.nulls(len(rows), RECORD.field("headers").type),
    ]
    return pa.table(columns, schema=RECORD)

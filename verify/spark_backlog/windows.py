"""A plain computation of the windows of a backlog, compared with the rollups in topic and lake."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from confluent_kafka import Consumer, TopicPartition
from tools.backlog.measurements import Array, Backlog, series_name

from verify.spark_fire.checks import sink_files

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
SIZES_MS = {"1m": MINUTE_MS, "5m": 5 * MINUTE_MS, "1h": HOUR_MS}
FIELDS = ("count", "sum", "min", "max", "mean", "p50", "p95", "p99")
_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
QUANTILE_ERROR = 0.01
"""What `metrics` promises by default."""
_ROUNDING = 1e-9
_TIMEOUT_S = 120.0

Window = tuple[str, str, str, int]
"""Metric, source, size, start."""
Rolled = dict[Window, tuple[float, ...]]


def expected(backlog: Backlog) -> Rolled:
    """Every window of the backlog, hour by hour."""
    found: Rolled = {}
    for series, time_ms, values in _hours(backlog):
        for size, size_ms in SIZES_MS.items():
            starts = time_ms - time_ms % size_ms
            found.update(_rolled(size, series, starts, values))
    return found


def _hours(backlog: Backlog) -> Iterator[tuple[Array, Array, Array]]:
    """The measurements that count, by the hour of their time."""
    waiting: list[tuple[Array, Array, Array]] = []
    end_ms: int | None = None
    for chunk in backlog.chunks():
        fits = chunk.accepted
        waiting.append((chunk.series[fits], chunk.time_ms[fits], chunk.values[fits]))
        if end_ms is None:
            end_ms = int(chunk.time_ms[fits].min()) // HOUR_MS * HOUR_MS + HOUR_MS
        while int(chunk.arrival_ms[-1]) - MINUTE_MS > end_ms:
            over, waiting = _split(waiting, end_ms)
            yield over
            end_ms += HOUR_MS
    while waiting and end_ms is not None:
        over, waiting = _split(waiting, end_ms)
        yield over
        end_ms += HOUR_MS


def _split(
    waiting: list[tuple[Array, Array, Array]], end_ms: int
) -> tuple[tuple[Array, Array, Array], list[tuple[Array, Array, Array]]]:
    series, time_ms, values = (np.concatenate(column) for column in zip(*waiting, strict=True))
    over = time_ms < end_ms
    rest = [(series[~over], time_ms[~over], values[~over])] if not over.all() else []
    return (series[over], time_ms[over], values[over]), rest


def _rolled(size: str, series: Array, starts: Array, values: Array) -> Rolled:
    order = np.lexsort((values, starts, series))
    series, starts, values = series[order], starts[order], values[order]
    if not len(values):
        return {}
    edges = np.flatnonzero((np.diff(series) != 0) | (np.diff(starts) != 0)) + 1
    first = np.concatenate(([0], edges))
    count = np.diff(np.concatenate((first, [len(values)])))
    total = np.add.reduceat(values, first)
    columns: list[Array] = [count, total, values[first], values[first + count - 1], total / count]
    columns += [_quantile(values, first, count, share) for share in _SHARES.values()]
    names = [series_name(int(one)) for one in series[first]]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    keys = (
        (metric, source, size, start) for (metric, source), start in zip(names, starts[first].tolist(), strict=True)
    )
    return dict(zip(keys, rows, strict=True))


def _quantile(values: Array, first: Array, count: Array, share: float) -> Array:
    """By linear interpolation."""
    place = (count - 1) * share
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, count - 1)
    low = values[first + below]
    found: Array = low + (values[first + above] - low) * (place - below)
    return found


def read_topic(address: str, topic: str) -> list[tuple[bytes, dict[str, bytes]]]:
    """Values and headers of all committed records."""
    options = {"bootstrap.servers": address, "group.id": "judge", "enable.auto.commit": False}
    consumer = Consumer({**options, "isolation.level": "read_committed", "enable.partition.eof": True})
    partitions = list(consumer.list_topics(topic, _TIMEOUT_S).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    found: list[tuple[bytes, dict[str, bytes]]] = []
    ended = 0
    while ended < len(partitions):
        messages = consumer.consume(5_000, _TIMEOUT_S)
        if not messages:
            raise RuntimeError(f"{topic} cannot be read to its end")
        for message in messages:
            if message.error() is not None:
                ended += 1
                continue
            found.append((message.value() or b"", dict(message.headers() or ())))  # type: ignore[arg-type]
    consumer.close()
    return found


def from_topic(address: str, topic: str, problems: list[str]) -> Rolled:
    """The rollups in the topic."""
    return _collected((json.loads(value) for value, _ in read_topic(address, topic)), "topic", problems)


def from_lake(folder: Path, problems: list[str]) -> Rolled:
    """The rollups in the lake, in the files that Spark's sink counts."""
    columns = ["metric", "source", "window", "start", *FIELDS]
    tables = [pq.ParquetFile(path).read(columns=columns) for path in sink_files(folder)]
    rows = pa.concat_tables(tables)
    start = rows.column("start").cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
    rows = rows.set_column(rows.schema.get_field_index("start"), "start", start)
    return _collected(rows.to_pylist(), "lake", problems)


def _collected(rows: Any, what: str, problems: list[str]) -> Rolled:
    found: Rolled = {}
    twice = 0
    for row in rows:
        window = row["metric"], row["source"], row["window"], row["start"]
        twice += window in found
        found[window] = tuple(row[name] for name in FIELDS)
    if twice:
        problems.append(f"{what}: {twice} windows are there more than once")
    return found


def window_problems(what: str, found: Rolled, wanted: Rolled, error: float) -> tuple[list[str], float]:
    """The differences, and the largest relative error of a quantile."""
    problems = []
    missing, unknown = wanted.keys() - found.keys(), found.keys() - wanted.keys()
    for some, how in ((missing, "missing"), (unknown, "not expected")):
        if some:
            problems.append(f"{what}: {len(some)} windows are {how}, such as {min(some)}")
    both = sorted(wanted.keys() & found.keys())
    mine, theirs = np.array([found[one] for one in both]), np.array([wanted[one] for one in both])
    off = np.abs(mine - theirs) / np.maximum(np.abs(theirs), 1e-300) if both else np.zeros((0, len(FIELDS)))
    allowed = np.array([_ROUNDING + (error if name in _SHARES else 0.0) for name in FIELDS])
    for number, name in enumerate(FIELDS):
        wrong = np.flatnonzero(off[:, number] > allowed[number])
        if len(wrong):
            at = int(wrong[0])
            problems.append(
                f"{what}: {name} of {len(wrong)} windows differs, such as {both[at]}: "
                f"{mine[at, number]} for {theirs[at, number]}"
            )
    quantiles = [number for number, name in enumerate(FIELDS) if name in _SHARES]
    return problems, float(off[:, quantiles].max()) if both else 0.0

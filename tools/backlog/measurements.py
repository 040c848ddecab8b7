"""Measurements of a backlog: drawn from a seed and the number of their chunk, so that a judge can draw them again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

PARTITIONS = 4
METRICS, SOURCES = 8, 25
SPAN_MS = 6 * 3_600_000
"""The time of all measurements."""
AFTER_MS = 2 * 3_600_000
"""So long after them, one measurement of each partition closes the last windows."""
LATENESS_MS = 10 * 60_000
_CHUNK_ROWS_MAX = 100_000
_CHUNKS_MIN = 200
"""So many at least, so that a duplicate follows its measurement within two minutes."""
_BROKEN, _LATE, _DOUBLE = 0.002, 0.004, 0.99

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Backlog:
    """The parameters of a backlog."""

    records: int
    start_ms: int
    seed: int = 1

    @property
    def chunk_rows(self) -> int:
        return max(1, min(_CHUNK_ROWS_MAX, self.records // _CHUNKS_MIN))

    def chunks(self) -> Iterator[Chunk]:
        for number, first in enumerate(range(0, self.records, self.chunk_rows)):
            yield Chunk.drawn(self, number, first, min(self.chunk_rows, self.records - first))

    def closing(self) -> pa.RecordBatch:
        """The last record of each partition."""
        time_ms = self.start_ms + SPAN_MS + AFTER_MS
        text = '{"id": "end-%d", "metric": "alive", "source": "end", "time": %d, "value": 1}'
        values = [(text % (number, time_ms)).encode() for number in range(PARTITIONS)]
        return _rows(pa.array(values, pa.binary()), np.full(PARTITIONS, time_ms), np.arange(PARTITIONS))


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some measurements in the order of their arrival; afterwards, some of them again."""

    first: int
    series: Array
    time_ms: Array
    arrival_ms: Array
    values: Array
    chances: Array

    @staticmethod
    def drawn(backlog: Backlog, number: int, first: int, rows: int) -> Chunk:
        random = np.random.default_rng([backlog.seed, number])
        arrival_ms = backlog.start_ms + (first + np.arange(rows)) * SPAN_MS // backlog.records
        chances = random.random(rows)
        behind = random.integers(0, 60_000, rows)
        too_late = LATENESS_MS + 1 + random.integers(0, 3 * LATENESS_MS, rows)
        time_ms = arrival_ms - np.where((chances >= _BROKEN) & (chances < _LATE), too_late, behind)
        series = random.integers(0, METRICS * SOURCES, rows)
        values = np.round(random.lognormal(3.4, 0.6, rows) * (1 + series % METRICS), 3)
        return Chunk(first, series, time_ms, arrival_ms, values, chances)

    @property
    def accepted(self) -> Array:
        """Which of them count."""
        return self.chances >= _LATE

    @property
    def broken(self) -> int:
        return int((self.chances < _BROKEN).sum())

    @property
    def late(self) -> int:
        return len(self.chances) - self.broken - int(self.accepted.sum())

    @property
    def duplicates(self) -> int:
        return int((self.chances > _DOUBLE).sum())

    def records(self) -> Iterator[pa.RecordBatch]:
        """The records of each partition in order; duplicates are in other partitions than their measurements."""
        values = self._values()
        again = np.flatnonzero(self.chances > _DOUBLE)
        values = pa.concat_arrays([values, values.take(pa.array(again))])
        times = np.concatenate([self.arrival_ms, np.full(len(again), self.arrival_ms[-1])])
        places = np.concatenate([np.arange(len(self.chances)), again + 1]) % PARTITIONS
        for number in range(PARTITIONS):
            rows = np.flatnonzero(places == number)
            yield _rows(values.take(pa.array(rows)), times[rows], places[rows])

    def _values(self) -> pa.Array:
        names = pa.array([f"metric-{number}" for number in range(METRICS)])
        sources = pa.array([f"source-{number:02d}" for number in range(SOURCES)])
        ids = pa.array(self.first + np.arange(len(self.chances))).cast(pa.string())
        texts = pc.binary_join_element_wise(
            '{"id": "', ids,
            '", "metric": "', names.take(pa.array(self.series % METRICS)),
            '", "source": "', sources.take(pa.array(self.series // METRICS)),
            '", "time": ', pa.array(self.time_ms).cast(pa.string()),
            ', "value": ', pa.array(self.values).cast(pa.string()),
            "}", "",
        )  # fmt: skip
        broken = pc.binary_join_element_wise("broken ", ids, "")
        return pc.if_else(pa.array(self.chances < _BROKEN), broken, texts).cast(pa.binary())


def series_name(series: int) -> tuple[str, str]:
    """Metric and source.

    >>> series_name(9)
    ('metric-1', 'source-01')
    """
    return f"metric-{series % METRICS}", f"source-{series // METRICS:02d}"


def _rows(values: pa.Array, times: Array, places: Array) -> pa.RecordBatch:
    stamps = pa.array(times.astype(np.int64)).cast(pa.timestamp("ms")).cast(pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_arrays(
        [values, stamps, pa.array(places.astype(np.int32))], names=["value", "timestamp", "partition"]
    )

"""Parquet files of an archive: an executor writes its rows, one file per partition and hour.

Rule 1: a task that is retried writes the same files under the same names and replaces the earlier ones.
Rule 2: memory stays at `HELD_BYTES` and a row group, for any number of hours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from qanat.model.ids import TopicPartition
from qanat.spark.lake.commits import LakeFile
from qanat.spark.lake.files import Folder

HELD_BYTES = 64 * 1024 * 1024
OPEN_FILES = 32
"""Rows with timestamps out of order need more files, not more memory."""
_GROUP_ROWS = 1 << 17
_HOUR_MS = 3_600_000

_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", _HEADERS),
    ]
)
SPARK_SCHEMA = (
    "partition int, offset bigint, timestamp timestamp, timestampType int, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>, topic string, date string, hour string"
)
"""The same for Spark, with the columns in the folders' names."""


def write_rows(
    batches: Iterable[pa.RecordBatch], folder: Folder, positions: Mapping[TopicPartition, int]
) -> Iterator[LakeFile]:
    """Write the source's rows from their partition's position on; returns the files."""
    with _Writing(folder) as writing:
        for batch in batches:
            for at, rows in _by_partition(batch):
                first_wanted = positions.get(at, 0)
                if len(rows) and rows.column("offset")[0].as_py() < first_wanted:
                    rows = rows.filter(pc.greater_equal(rows.column("offset"), first_wanted))
                for hour, some in _by_hour(rows):
                    writing.add(at, hour, some)
            yield from writing.finished()
        writing.close_all()
        yield from writing.finished()


def open_writer(sink: Any) -> pq.ParquetWriter:
    """A writer with the Parquet settings of all files of a lake."""
    return pq.ParquetWriter(
        sink,
        SCHEMA,
        compression="zstd",
        use_dictionary=["key"],
        # Statistics of keys and values would help no query.
        write_statistics=["partition", "offset", "timestamp"],
    )


def folder_name(topic: str, hour: int) -> str:
    """The folder of the records of an hour; hours are counted from 1970.

    >>> folder_name("orders", 490_000)
    'topic=orders/date=2025-11-24/hour=16'
    """
    return f"topic={topic}/date={np.datetime64(hour // 24, 'D')}/hour={hour % 24:02}"


class _Open:
    """A file that is being written."""

    def __init__(self, folder: Folder, at: TopicPartition, hour: int, first: int) -> None:
        self.at = at
        self.path = f"{folder_name(at.topic, hour)}/{at.partition:05}-{first:020}.parquet"
        self.first, self.last = first, first
        self.rows, self.earliest, self.latest = 0, 0, 0
        self.held: list[pa.RecordBatch] = []
        self.held_bytes, self.held_rows = 0, 0
        self._file: AbstractContextManager[Any] = folder.writing(self.path)
        self._sink = self._file.__enter__()
        self._writer = open_writer(self._sink)

    def add(self, rows: pa.RecordBatch) -> int:
        """Add rows; returns the bytes added to memory."""
        least, most = (value.value for value in pc.min_max(rows.column("timestamp")).values())
        self.earliest = least if self.rows == 0 else min(self.earliest, least)
        self.latest = most if self.rows == 0 else max(self.latest, most)
        self.last = rows.column("offset")[-1].as_py()
        self.rows += rows.num_rows
        self.held.append(rows)
        self.held_rows += rows.num_rows
        self.held_bytes += rows.nbytes
        return int(rows.nbytes)

    def flush(self) -> int:
        """Write the rows in memory; returns their bytes."""
        if self.held:
            self._writer.write_table(pa.Table.from_batches(self.held, SCHEMA), row_group_size=_GROUP_ROWS)
        freed = self.held_bytes
        self.held, self.held_bytes, self.held_rows = [], 0, 0
        return freed

    def close(self) -> LakeFile:
        self.flush()
        self._writer.close()
        size = self._sink.tell()
        self._file.__exit__(None, None, None)
        return LakeFile(
            *(self.path, self.at.topic, self.at.partition, self.first, self.last),
            *(self.rows, size, self.earliest, self.latest),
        )

    def abandon(self, *fault: Any) -> None:
        # Closed first, or the garbage collector would close it later.
        self._writer.close()
        self._file.__exit__(*fault)


class _Writing:
    """All files of a task."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._open: dict[tuple[TopicPartition, int], _Open] = {}
        self._held = 0
        self._done: list[LakeFile] = []

    def __enter__(self) -> _Writing:
        return self

    def __exit__(self, kind: Any, fault: Any, trace: Any) -> None:
        for one in self._open.values():
            try:
                one.abandon(kind or GeneratorExit, fault or GeneratorExit(), trace)
            except BaseException as raised:
                if raised is not fault and not isinstance(raised, GeneratorExit):
                    raise

    def add(self, at: TopicPartition, hour: int, rows: pa.RecordBatch) -> None:
        # Reinserted at the end: the least recently used file is closed first.
        one = self._open.pop((at, hour), None)
        if one is None:
            if len(self._open) >= OPEN_FILES:
                self._close(next(iter(self._open)))
            one = _Open(self._folder, at, hour, rows.column("offset")[0].as_py())
        self._open[at, hour] = one
        self._held += one.add(rows)
        if one.held_rows >= _GROUP_ROWS:
            self._held -= one.flush()
        if self._held > HELD_BYTES:
            self._held -= max(self._open.values(), key=lambda some: some.held_bytes).flush()

    def close_all(self) -> None:
        for key in list(self._open):
            self._close(key)

    def finished(self) -> Iterator[LakeFile]:
        done, self._done = self._done, []
        yield from done

    def _close(self, key: tuple[TopicPartition, int]) -> None:
        one = self._open[key]
        self._held -= one.held_bytes
        self._done.append(one.close())
        del self._open[key]


def _by_partition(batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    """The rows of each partition, in order; a task of a read has one partition."""
    for topic in pc.unique(batch.column("topic")).to_pylist():
        of_topic = batch
        if not pc.all(pc.equal(batch.column("topic"), topic)).as_py():
            of_topic = batch.filter(pc.equal(batch.column("topic"), topic))
        for number in pc.unique(of_topic.column("partition")).to_pylist():
            rows = of_topic
            if not pc.all(pc.equal(of_topic.column("partition"), number)).as_py():
                rows = of_topic.filter(pc.equal(of_topic.column("partition"), number))
            yield TopicPartition(topic, number), _stored(rows)


def _stored(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of a file."""
    arrays = [rows.column(field.name).cast(field.type, safe=False) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _by_hour(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each hour, in order."""
    if not rows.num_rows:
        return
    hours = np.floor_divide(rows.column("timestamp").cast(pa.int64()).to_numpy(), _HOUR_MS)
    found = np.unique(hours)
    if len(found) == 1:
        yield int(found[0]), rows
        return
    for hour in found:
        yield int(hour), rows.filter(pa.array(hours == hour))

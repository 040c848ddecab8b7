"""Row batches: rows partitioned and encoded into record batches, column by column."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator, Mapping

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from msgspec.structs import replace

from qanat.model.ids import TopicPartition
from qanat.spark.sink.outgoing_columns import COLUMNS, EncodedBatch, RowsError, Target
from qanat.wire.column_layout import BinaryColumn, Columns
from qanat.wire.columns import encode_columns
from qanat.wire.key_hash import place_rows

_ROW_BYTES = 16
"""The approximate overhead of a record."""
_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


class Encoder:
    """Encodes Arrow batches into record batches, partition by partition, in the order of the rows."""

    def __init__(self, target: Target, partition_counts: Mapping[str, int] | None = None) -> None:
        self._target = target
        self._counts = dict(partition_counts or {})
        self._turn = 0
        """The last partition of rows without a key, which rotate, some rows at a time."""
        self._nothing = _nothing(0)
        """Empty columns for those that are missing, cached: batches mostly have equal numbers of rows."""

    def topics(self, batch: pa.RecordBatch) -> set[str]:
        """The topics of some rows."""
        if self._target.topic is not None:
            return {self._target.topic}
        found = pc.unique(batch.column("topic")).to_pylist()
        if None in found:
            raise RowsError("a row has no topic: column topic is null and there is no option topic")
        return set(found)

    def unknown_topics(self, batch: pa.RecordBatch) -> list[str]:
        """Topics whose partition count must be set (`set_partition_count`) before these rows are encoded."""
        return sorted(self.topics(batch) - self._counts.keys())

    def set_partition_count(self, topic: str, partitions: int) -> None:
        self._counts[topic] = partitions

    def encode(self, batch: pa.RecordBatch) -> Iterator[EncodedBatch]:
        """The record batches of some rows; their topics' partition counts must be known."""
        names = batch.schema.names
        if any(name not in COLUMNS for name in names):
            batch = batch.select([name for name in names if name in COLUMNS])
        for topic in sorted(self.topics(batch)):
            rows = batch
            if self._target.topic is None and len(self.topics(batch)) > 1:
                rows = batch.filter(pc.equal(batch.column("topic"), topic))
            yield from self._encode_topic(topic, rows)

    def _encode_topic(self, topic: str, batch: pa.RecordBatch) -> Iterator[EncodedBatch]:
        if self._is_anywhere(batch):
            yield from self._encode_in_turn(topic, batch)
            return
        partitions = self._partitions(topic, batch)
        used = sorted(pc.unique(partitions).to_pylist())
        if len(used) > 1:
            order = pc.sort_indices(partitions)
            batch, partitions = batch.take(order), partitions.take(order)
        columns = self._columns(batch)
        first_row = 0
        counts = {one["values"]: one["counts"] for one in pc.value_counts(partitions).to_pylist()}
        for number in used:
            end_row = first_row + counts[number]
            for finished, rows in self._batches(columns, first_row, end_row, self._target.batch_bytes):
                yield EncodedBatch(TopicPartition(topic, number), finished, rows)
            first_row = end_row

    @staticmethod
    def _is_anywhere(batch: pa.RecordBatch) -> bool:
        """Whether no row has a key or a partition."""
        return all(
            name not in batch.schema.names or batch.column(name).null_count == batch.num_rows
            for name in ("key", "partition")
        )

    def _encode_in_turn(self, topic: str, batch: pa.RecordBatch) -> Iterator[EncodedBatch]:
        """Batches of about the same size, each for the next partition, so that they are sent in one round."""
        rows, most = batch.num_rows, self._target.batch_bytes
        columns = self._columns(batch)
        headers = columns.header_offsets[rows] if rows else 0
        spans = ((columns.values, rows), (columns.header_keys, headers), (columns.header_values, headers))
        expected = rows * _ROW_BYTES + sum(column.offsets[count] for column, count in spans)
        evenly = expected // -(-expected // most) + 1 if expected else most
        for finished, count in self._batches(columns, 0, rows, min(most, evenly)):
            self._turn = (self._turn + 1) % self._counts[topic]
            yield EncodedBatch(TopicPartition(topic, self._turn), finished, count)

    def _batches(self, columns: Columns, first_row: int, end_row: int, most: int) -> Iterator[tuple[bytearray, int]]:
        return encode_columns(columns, codec=self._target.codec, batch_bytes=most, first_row=first_row, end_row=end_row)

    def _partitions(self, topic: str, batch: pa.RecordBatch) -> pa.Array:
        """The partition of every row: its own, else its key's, else the next one."""
        count = self._counts[topic]
        given = batch.column("partition") if "partition" in batch.schema.names else None
        if given is not None and given.null_count == 0:
            self._check_range(topic, given, count)
            return given
        placed = self._placed(batch, count)
        if given is not None:
            placed = pc.coalesce(given, placed)
            self._check_range(topic, placed, count)
        return placed

    def _placed(self, batch: pa.RecordBatch, count: int) -> pa.Array:
        rows = batch.num_rows
        self._turn = (self._turn + 1) % count
        in_turn = pa.repeat(pa.scalar(self._turn, pa.int32()), rows)
        if "key" not in batch.schema.names:
            return in_turn
        keys = _plain(batch.column("key"), pa.binary())
        targets = array("i", [0]) * rows
        column = _binary_column(keys)
        place_rows(column.offsets, column.data, count, targets)
        placed = pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(targets)])
        return pc.if_else(pc.is_valid(keys), placed, in_turn) if keys.null_count else placed

    @staticmethod
    def _check_range(topic: str, partitions: pa.Array, count: int) -> None:
        if len(partitions) == 0:
            return
        least, most = pc.min_max(partitions).as_py().values()
        wrong = least if least < 0 else most
        if least < 0 or most >= count:
            raise RowsError(f"a row names partition {wrong} of topic {topic}, which has 0 to {count - 1}")

    def _columns(self, batch: pa.RecordBatch) -> Columns:
        rows = batch.num_rows
        names = batch.schema.names
        if rows != len(self._nothing):
            self._nothing = _nothing(rows)
        columns = self._nothing
        if "key" in names:
            columns = replace(columns, keys=_binary_column(_plain(batch.column("key"), pa.binary())))
        if self._target.has_headers and "headers" in names:
            headers = _plain(batch.column("headers"), _HEADERS)
            if pc.any(pc.is_null(headers.flatten().flatten()[0])).as_py():
                raise RowsError("a row has a header without a key: column headers holds null in its place")
            columns = replace(
                columns,
                header_offsets=_starts(headers.buffers()[1]),
                header_keys=_binary_column(headers.values.field("key")),
                header_values=_binary_column(headers.values.field("value")),
            )
        if "timestamp" in names:
            millis = _viewed(_millis(batch.column("timestamp")).buffers()[1]).cast("q")
        else:
            millis = array("q", [time.time_ns() // 1_000_000]) * rows
        values = _binary_column(_plain(batch.column("value"), pa.binary()))
        return replace(columns, timestamps=millis, values=values)


def _nothing(rows: int) -> Columns:
    """Columns of so many empty rows."""
    empty = _binary_column(pa.nulls(rows, pa.binary()))
    no_headers = pa.nulls(rows, _HEADERS)
    return Columns(
        offsets=array("q"),
        timestamps=array("q", bytes(8 * rows)),
        keys=empty,
        values=empty,
        header_offsets=_starts(no_headers.buffers()[1]),
        header_keys=_binary_column(no_headers.values.field("key")),
        header_values=_binary_column(no_headers.values.field("value")),
    )


def _millis(column: pa.Array) -> pa.Array:
    """Spark's microseconds as Kafka's milliseconds, rounded down; the current time for null."""
    micros = _plain(column, pa.timestamp("us", tz="UTC")).view(pa.int64())
    now = pa.scalar(time.time_ns() // 1_000, pa.int64())
    whole = pc.fill_null(micros, now)
    return _plain(pc.floor(pc.divide(pc.cast(whole, pa.float64()), 1000.0)).cast(pa.int64()), pa.int64())


def _plain(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column of this type whose buffers start at offset 0."""
    if column.type != kind:
        column = column.cast(kind)
    return column if column.offset == 0 else column.take(pa.array(range(len(column)), pa.int64()))


def _binary_column(column: pa.Array) -> BinaryColumn:
    validity, offsets, data = (*column.buffers(), None)[:3]
    return BinaryColumn(
        validity if column.null_count else None,
        _starts(offsets),
        _viewed(data) if data is not None else b"",
        column.null_count,
    )


def _starts(offsets: pa.Buffer | None) -> memoryview | array[int]:
    """The start of each row's data; Arrow may omit the buffer of an empty column."""
    return _viewed(offsets).cast("i") if offsets is not None and offsets.size else array("i", [0])


def _viewed(buffer: pa.Buffer) -> memoryview:
    """A buffer as unsigned bytes; Arrow's own buffers are signed."""
    return memoryview(buffer).cast("B")

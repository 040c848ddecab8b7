"""Chunks as Arrow record batches: one native walk over the encoded records, no Python object per record.

Columns: topic, partition, offset, timestamp (UTC, milliseconds), key, value, headers. pyarrow is imported on first use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from qanat.client.consumer.assigned_partition import Chunk
from qanat.connection.fetching import INFLATED_BYTES_MAX
from qanat.model.ids import TopicPartition
from qanat.wire.column_layout import BinaryColumn, Columns
from qanat.wire.columns import decode_columns

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def record_batches(chunks: list[tuple[TopicPartition, Chunk]], rows: int) -> Iterator[pa.RecordBatch]:
    """The records of these chunks, in batches of at most `rows`."""
    import pyarrow as pa

    parts: list[Any] = []
    for at, some in _by_partition(chunks).items():
        encoded = [batch for chunk in some if chunk.records is None for batch, _ in chunk.batches]
        parts += [_from_records(at, chunk.records[chunk.index :]) for chunk in some if chunk.records is not None]
        if encoded:
            first = next(chunk.first_offset for chunk in some if chunk.records is None)
            parts.append(
                _from_columns(at, decode_columns(encoded, limit_bytes=8 * INFLATED_BYTES_MAX, first_offset=first))
            )
    if parts:
        table = pa.Table.from_batches(parts)
        if len(parts) > 1:
            table = table.combine_chunks()
        yield from table.to_batches(max_chunksize=rows)


def _by_partition(chunks: list[tuple[TopicPartition, Chunk]]) -> dict[TopicPartition, list[Chunk]]:
    found: dict[TopicPartition, list[Chunk]] = {}
    for at, chunk in chunks:
        found.setdefault(at, []).append(chunk)
    return found


def _types() -> dict[str, Any]:
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    kinds = (
        pa.string(),
        pa.int32(),
        pa.int64(),
        pa.timestamp("ms", tz="UTC"),
        pa.binary(),
        pa.binary(),
        pa.list_(header),
    )
    return dict(zip(_COLUMNS, kinds, strict=True))


def _from_columns(at: TopicPartition, columns: Columns) -> pa.RecordBatch:
    import pyarrow as pa

    kinds = _types()
    rows = len(columns)
    count = columns.header_offsets[rows] if rows else 0
    pairs = pa.StructArray.from_arrays(
        [_binary(columns.header_keys, count, pa.string()), _binary(columns.header_values, count, pa.binary())],
        fields=list(kinds["headers"].value_type),
    )
    starts = pa.Array.from_buffers(pa.int32(), rows + 1, [None, pa.py_buffer(columns.header_offsets)])
    arrays = [
        pa.repeat(pa.scalar(at.topic, kinds["topic"]), rows),
        pa.repeat(pa.scalar(at.partition, kinds["partition"]), rows),
        pa.Array.from_buffers(kinds["offset"], rows, [None, pa.py_buffer(columns.offsets)]),
        pa.Array.from_buffers(kinds["timestamp"], rows, [None, pa.py_buffer(columns.timestamps)]),
        _binary(columns.keys, rows, kinds["key"]),
        _binary(columns.values, rows, kinds["value"]),
        pa.ListArray.from_arrays(starts, pairs).cast(kinds["headers"]),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(list(kinds.items())))


def _binary(column: BinaryColumn, rows: int, kind: Any) -> pa.Array:
    import pyarrow as pa

    validity = None if column.null_count == 0 or column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, rows, buffers, column.null_count)


def _from_records(at: TopicPartition, records: list[Any]) -> pa.RecordBatch:
    """Records that were decoded before the first Arrow batch was asked for."""
    import pyarrow as pa

    kinds = _types()
    columns = {
        "topic": [at.topic] * len(records),
        "partition": [at.partition] * len(records),
        "offset": [one.offset for one in records],
        "timestamp": [one.timestamp_ms for one in records],
        "key": [one.key for one in records],
        "value": [one.value for one in records],
        "headers": [[{"key": key, "value": value} for key, value in one.headers] for one in records],
    }
    arrays = [pa.array(columns[name], kind) for name, kind in kinds.items()]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(list(kinds.items())))

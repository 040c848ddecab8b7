"""Columns of `wire.column_layout` as Arrow arrays, without a copy of keys and values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from qanat.wire.column_layout import BinaryColumn, Columns

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_BYTES = pa.binary()


def binary(column: BinaryColumn, rows: int, kind: pa.DataType = _BYTES) -> pa.Array:
    """A column of bytes, or of text."""
    validity = None if column.null_count == 0 or column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, rows, buffers, column.null_count)


def timestamps(columns: Columns) -> pa.Array:
    """Kafka's milliseconds as Spark's microseconds."""
    millis = pa.Array.from_buffers(pa.timestamp("ms", tz="UTC"), len(columns), [None, pa.py_buffer(columns.timestamps)])
    return millis.cast(pa.timestamp("us", tz="UTC"))


def offsets(columns: Columns) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(columns), [None, pa.py_buffer(columns.offsets)])


def headers(columns: Columns) -> pa.Array:
    """A list of key and value for each row; null for no headers, as in Spark's connector."""
    rows = len(columns)
    count = columns.header_offsets[rows] if rows else 0
    pairs = pa.StructArray.from_arrays(
        [binary(columns.header_keys, count, pa.string()), binary(columns.header_values, count)], fields=list(_HEADER)
    )
    starts = pa.Array.from_buffers(pa.int32(), rows + 1, [None, pa.py_buffer(columns.header_offsets)])
    lists = pa.ListArray.from_arrays(starts, pairs)
    # Imported only for headers: it takes as long as the rest of Arrow.
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    is_empty = pc.equal(pc.list_value_length(lists), 0)
    return pc.if_else(is_empty, pa.scalar(None, lists.type), lists)


class Repeated:
    """A column with the same value in every row: built once, sliced for each number of rows."""

    def __init__(self, value: Any, kind: pa.DataType) -> None:
        self._value = pa.scalar(value, kind)
        self._made = pa.repeat(self._value, 0)

    def rows(self, count: int) -> pa.Array:
        if len(self._made) < count:
            self._made = pa.repeat(self._value, count)
        return self._made.slice(0, count)

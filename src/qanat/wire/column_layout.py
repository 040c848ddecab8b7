"""Columns of records in Arrow's layout, as plain memory.

The schema is `offset int64, timestamp int64, key binary, value binary, headers
list<struct<key utf8, value binary>>`; keys, values and header values may be null.
pyarrow wraps the buffers without a copy (`pyarrow.Array.from_buffers`), and nothing
else needs it. Validity bits are in little-endian order, 1 means present; a column
without nulls has none. `columns.py` reads columns from batches and writes batches from them.
"""

from __future__ import annotations

from array import array

from msgspec import Struct

from qanat.wire.batch_header import Buffer


class BinaryColumn(Struct):
    """Row i is `data[offsets[i]:offsets[i + 1]]`, or null if its validity bit is 0."""

    validity: Buffer | None
    offsets: array[int] | memoryview
    data: Buffer
    null_count: int = 0


class Columns(Struct):
    """One set of columns of equal length; `header_offsets` splits the header columns into rows."""

    offsets: array[int] | memoryview
    timestamps: array[int] | memoryview
    keys: BinaryColumn
    values: BinaryColumn
    header_offsets: array[int] | memoryview
    header_keys: BinaryColumn
    header_values: BinaryColumn

    def __len__(self) -> int:
        return len(self.timestamps)

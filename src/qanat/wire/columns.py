"""The records of many batches as buffers in Arrow's layout, and rows of columns as batches.

The schema is `offset int64, timestamp int64, key binary, value binary, headers
list<struct<key utf8, value binary>>`; keys, values and header values may be null.
The buffers are plain arrays: whoever has pyarrow wraps them without a copy,
nobody else needs it. Validity bits are in little-endian order, 1 means present.

Header keys are text in Arrow; one that is not valid UTF-8 gets replacement
characters, as Java's client gives it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from qanat.model.errors import BatchTooLargeError
from qanat.wire.batch_header import HEADER_SIZE, BatchHeader, Buffer
from qanat.wire.column_reader import ColumnFiller, measure
from qanat.wire.compression import Codec
from qanat.wire.record_writer import RowEncoder
from qanat.wire.records import BatchFields, open_batch, sealed

INT32_MAX = 2**31 - 1
"""Arrow's offsets into `binary` and `list` columns have 32 bits."""
INT64_MAX = 2**63 - 1
_PLAIN = BatchFields()


@dataclass(slots=True)
class BinaryColumn:
    """Row i is `data[offsets[i]:offsets[i + 1]]`, or null if its validity bit is 0."""

    validity: Buffer | None
    offsets: array[int] | memoryview
    data: Buffer
    null_count: int = 0

    @classmethod
    def empty(cls, rows: int, data_bytes: int) -> BinaryColumn:
        return cls(bytearray(b"\xff") * ((rows + 7) // 8), array("i", [0]) * (rows + 1), bytearray(data_bytes))


@dataclass(slots=True)
class Columns:
    """One set of columns of equal length; `header_offsets` cuts the header columns into rows."""

    offsets: array[int] | memoryview
    timestamps: array[int] | memoryview
    keys: BinaryColumn
    values: BinaryColumn
    header_offsets: array[int] | memoryview
    header_keys: BinaryColumn
    header_values: BinaryColumn

    def __len__(self) -> int:
        return len(self.timestamps)


class _Part(NamedTuple):
    """An opened batch, and which of its records are wanted."""

    header: BatchHeader
    payload: Buffer
    first: int
    end: int


def decode_columns(
    batches: Iterable[Buffer], *, limit_bytes: int, first_offset: int = 0, end_offset: int = INT64_MAX
) -> Columns:
    """The records of these batches with `first_offset <= offset < end_offset`.

    Control batches have no rows. `limit_bytes` bounds the inflated records of
    all batches together, and with them the columns.
    """
    parts = list(_open_all(batches, limit_bytes, first_offset, end_offset))
    totals = array("q", bytes(8 * 6))
    for header, payload, first, end in parts:
        measure(payload, header.record_count, header.last_offset_delta, first, end, totals)
    columns = _allocate(totals)
    filler = ColumnFiller(columns)
    for header, payload, first, end in parts:
        is_fixed = header.is_log_append_time
        timestamp = header.max_timestamp if is_fixed else header.base_timestamp
        filler.fill(
            payload, header.record_count, header.last_offset_delta, first, end, header.base_offset, timestamp, is_fixed
        )
    columns.keys.null_count, columns.values.null_count, columns.header_values.null_count = filler.null_counts()
    columns.header_keys = _as_text(columns.header_keys)
    return columns


def _open_all(batches: Iterable[Buffer], limit_bytes: int, first_offset: int, end_offset: int) -> Iterator[_Part]:
    room = limit_bytes
    for batch in batches:
        header, payload = open_batch(batch, room)
        room -= len(payload)
        if not header.is_control:
            # Deltas have 31 bits, so that a clamped bound decides the same.
            first = max(0, min(first_offset - header.base_offset, INT32_MAX + 1))
            end = max(0, min(end_offset - header.base_offset, INT32_MAX + 1))
            yield _Part(header, payload, first, end)


def _allocate(totals: array[int]) -> Columns:
    rows, key_bytes, value_bytes, headers, header_key_bytes, header_value_bytes = totals
    if max(totals) > INT32_MAX:
        raise _beyond_arrow()
    return Columns(
        offsets=array("q", [0]) * rows,
        timestamps=array("q", [0]) * rows,
        keys=BinaryColumn.empty(rows, key_bytes),
        values=BinaryColumn.empty(rows, value_bytes),
        header_offsets=array("i", [0]) * (rows + 1),
        header_keys=BinaryColumn.empty(headers, header_key_bytes),
        header_values=BinaryColumn.empty(headers, header_value_bytes),
    )


def _as_text(column: BinaryColumn) -> BinaryColumn:
    """The same column if every row is UTF-8, otherwise one that is."""
    data = bytes(column.data)
    if data.isascii():
        return column
    rows = [data[start:end] for start, end in zip(column.offsets, column.offsets[1:], strict=False)]
    texts = [row.decode("utf-8", "replace").encode() for row in rows]
    if texts == rows:
        return column
    if sum(map(len, texts)) > INT32_MAX:
        raise _beyond_arrow()
    offsets = array("i", [0])
    for text in texts:
        offsets.append(offsets[-1] + len(text))
    return BinaryColumn(column.validity, offsets, bytearray(b"".join(texts)))


def _beyond_arrow() -> BatchTooLargeError:
    return BatchTooLargeError("a column would pass the 2 GiB that Arrow's 32-bit offsets reach; ask for fewer batches")


def encode_columns(
    columns: Columns,
    *,
    codec: Codec = Codec.NONE,
    batch_bytes: int = 1_000_000,
    first_row: int = 0,
    end_row: int | None = None,
    fields: BatchFields = _PLAIN,
) -> Iterator[tuple[bytearray, int]]:
    """Batches of at most `batch_bytes` before compression, each with the number of its rows.

    A row that alone is larger gets a batch of its own. Records are numbered from
    0 in each batch, whatever the offset column says: a broker gives them their
    place. Sequence numbers run on from `fields.base_sequence`, if there is one.
    """
    columns = _viewed(columns)
    encoder = RowEncoder(columns)
    end_row = len(columns) if end_row is None else end_row
    while first_row < end_row:
        next_row, size, max_timestamp = encoder.fit(first_row, end_row, batch_bytes)
        count = next_row - first_row
        batch = encoder.encode(first_row, next_row, size, HEADER_SIZE)
        timestamp = columns.timestamps[first_row]
        yield sealed(batch, fields, codec, count, count - 1, timestamp, max_timestamp), count
        fields = fields.after(count)
        first_row = next_row


def _viewed(columns: Columns) -> Columns:
    """The same buffers with the element types that the encoder expects; pyarrow's are all signed bytes."""
    return Columns(
        offsets=columns.offsets,
        timestamps=_typed(columns.timestamps, "q"),
        keys=_viewed_binary(columns.keys),
        values=_viewed_binary(columns.values),
        header_offsets=_typed(columns.header_offsets, "i"),
        header_keys=_viewed_binary(columns.header_keys),
        header_values=_viewed_binary(columns.header_values),
    )


def _viewed_binary(column: BinaryColumn) -> BinaryColumn:
    validity = None if column.validity is None else _typed(column.validity, "B")
    return BinaryColumn(validity, _typed(column.offsets, "i"), _typed(column.data, "B"), column.null_count)


def _typed(buffer: Buffer | array[int], element: Literal["B", "i", "q"]) -> memoryview:
    return memoryview(buffer).cast("B").cast(element)

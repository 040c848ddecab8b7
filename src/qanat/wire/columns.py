"""The records of many batches as columns, and rows of columns as batches.

The columns have Arrow's layout (`column_layout.py`). Both directions are one native walk.
A buffer is filled before its size is known, so it may reserve up to twice the memory that
it shows, of which the part after the end was never written. A column that would exceed
Arrow's 2 GiB is refused. Header keys are text in Arrow; invalid UTF-8 gets replacement
characters, as in Java's client.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Literal

from qanat.model.errors import BatchTooLargeError
from qanat.wire.batch_header import HEADER_SIZE, Buffer
from qanat.wire.column_layout import BinaryColumn, Columns
from qanat.wire.column_reader import BinaryFiller, ColumnFiller
from qanat.wire.compression import Codec
from qanat.wire.record_writer import RowEncoder
from qanat.wire.records import BatchFields, open_batch, sealed

INT32_MAX = 2**31 - 1
"""Arrow's offsets into `binary` and `list` columns have 32 bits."""
INT64_MAX = 2**63 - 1
_PLAIN = BatchFields()


def decode_columns(
    batches: Iterable[Buffer], *, limit_bytes: int, first_offset: int = 0, end_offset: int = INT64_MAX
) -> Columns:
    """The records of these batches with `first_offset <= offset < end_offset`.

    Control batches have no rows. `limit_bytes` bounds the decompressed records of
    all batches together, and with them the columns. Batches are opened one by
    one, so that no more than one is decompressed at a time.
    """
    batches = list(batches)
    filler = ColumnFiller(min(sum(map(len, batches)), limit_bytes))
    for batch in batches:
        header, payload = open_batch(batch, limit_bytes)
        limit_bytes -= len(payload)
        if header.is_control:
            continue
        is_fixed = header.is_log_append_time
        filler.fill(
            payload,
            header.record_count,
            header.last_offset_delta,
            # Deltas have 31 bits, so that a clamped bound has the same effect.
            max(0, min(first_offset - header.base_offset, INT32_MAX + 1)),
            max(0, min(end_offset - header.base_offset, INT32_MAX + 1)),
            header.base_offset,
            header.max_timestamp if is_fixed else header.base_timestamp,
            is_fixed,
        )
    offsets, timestamps, header_offsets = filler.finish()
    return Columns(
        offsets=_typed(offsets, "q"),
        timestamps=_typed(timestamps, "q"),
        keys=_finished(filler.keys),
        values=_finished(filler.values),
        header_offsets=_typed(header_offsets, "i"),
        header_keys=_as_text(_finished(filler.header_keys)),
        header_values=_finished(filler.header_values),
    )


def _finished(filler: BinaryFiller) -> BinaryColumn:
    validity, offsets, data, null_count = filler.buffers()
    return BinaryColumn(validity, _typed(offsets, "i"), data, null_count)


def _as_text(column: BinaryColumn) -> BinaryColumn:
    """The same column if every row is UTF-8, otherwise one that is."""
    assert isinstance(column.data, bytearray), "only columns that were just read are repaired"
    if column.data.isascii():
        return column
    data = bytes(column.data)
    rows = [data[start:end] for start, end in zip(column.offsets, column.offsets[1:], strict=False)]
    texts = [row.decode("utf-8", "replace").encode() for row in rows]
    if texts == rows:
        return column
    if sum(map(len, texts)) > INT32_MAX:
        raise BatchTooLargeError(
            "the repaired header keys exceed the 2 GiB of Arrow's 32-bit offsets; ask for fewer batches"
        )
    offsets = array("i", [0])
    for text in texts:
        offsets.append(offsets[-1] + len(text))
    return BinaryColumn(column.validity, offsets, bytearray(b"".join(texts)))


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

    A single larger row gets a batch of its own. Records are numbered from
    0 in each batch, whatever the offset column says: a broker assigns their
    offsets. Sequence numbers continue from `fields.base_sequence`, if there is one.
    """
    columns = _viewed(columns)
    encoder = RowEncoder(columns)
    end_row = len(columns) if end_row is None else end_row
    while first_row < end_row:
        batch, next_row, max_timestamp = encoder.encode(first_row, end_row, batch_bytes, HEADER_SIZE)
        count = next_row - first_row
        timestamp = columns.timestamps[first_row]
        last = count - 1
        yield sealed(batch, fields, codec, count, last, timestamp, max_timestamp), count
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

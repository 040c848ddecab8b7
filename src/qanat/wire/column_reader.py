# cython: language_level=3, boundscheck=False, wraparound=False, annotation_typing=False, initializedcheck=False
"""Records to columns: many batches into one set of buffers in Arrow's layout.

Two walks over the same payloads: `measure` says how large the buffers must be,
`ColumnFiller` fills them, so that nothing is ever moved or resized. Compiled
and interpreted like `record_reader`, whose cursor does the reading.

Rule: room is checked before every write; a payload that changed between the
two walks is a `CorruptBatchError`, not a write beyond a buffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.model.errors import CorruptBatchError
from qanat.wire.record_reader import RecordCursor

if TYPE_CHECKING:
    from array import array

    from qanat.wire.batch_header import Buffer
    from qanat.wire.columns import BinaryColumn, Columns

COMPILED = not __file__.endswith(".py")


def measure(payload: Buffer, count: int, last_offset_delta: int, first: int, end: int, totals: array[int]) -> None:
    """Add to `totals` what the records with offset deltas from `first` to before `end` need in columns.

    In this order: rows, key bytes, value bytes, headers, header key bytes, header value bytes.
    """
    cursor = RecordCursor(payload, last_offset_delta)
    for _ in range(count):
        cursor.next_record()
        is_wanted = first <= cursor.offset_delta < end
        for _ in range(cursor.header_count):
            cursor.next_header()
            if is_wanted:
                totals[4] += cursor.header_key_length
                totals[5] += max(cursor.header_value_length, 0)
        cursor.end_record()
        if is_wanted:
            totals[0] += 1
            totals[1] += max(cursor.key_length, 0)
            totals[2] += max(cursor.value_length, 0)
            totals[3] += cursor.header_count
    cursor.end_payload()


def writable(buffer: Buffer | None) -> bytearray:
    """Columns to be filled are our own; only columns to be read may come from elsewhere."""
    assert isinstance(buffer, bytearray)
    return buffer


class BinaryFiller:
    """A binary column of known size, and how far it is filled."""

    __slots__ = ("capacity", "data", "null_count", "offsets", "row", "rows", "validity")

    def __init__(self, column: BinaryColumn) -> None:
        self.validity = writable(column.validity)
        self.offsets = column.offsets
        self.data = writable(column.data)
        self.capacity = len(column.data)
        self.rows = len(column.offsets) - 1
        self.row = 0
        self.null_count = 0
        if len(self.validity) < (self.rows + 7) // 8:
            raise AssertionError("a column has fewer validity bits than rows")

    def add(self, cursor: RecordCursor, start: int, length: int) -> None:
        """The next row, from where the cursor found it; a negative length is null."""
        if self.row >= self.rows:
            raise CorruptBatchError("the records changed while they were being read")
        at = self.offsets[self.row]
        if length < 0:
            self.validity[self.row >> 3] &= ~(1 << (self.row & 7))
            self.null_count += 1
        else:
            self.copy(cursor, start, length, at)
            at += length
        self.row += 1
        self.offsets[self.row] = at

    def copy(self, cursor: RecordCursor, start: int, length: int, at: int) -> None:
        if length > self.capacity - at:
            raise CorruptBatchError("the records changed while they were being read")
        if COMPILED:
            native_copy(self, at, cursor, start, length)  # type: ignore[name-defined]  # noqa: F821
        else:
            plain_copy(self, at, cursor, start, length)


def plain_copy(target: BinaryFiller, at: int, source: RecordCursor, start: int, length: int) -> None:
    """Apart, because slices here would cost the compiled function around it 30 ns that it never uses."""
    target.data[at : at + length] = source.data[start : start + length]


class ColumnFiller:
    """All columns, each of exactly the size that `measure` gave."""

    __slots__ = ("header_keys", "header_offsets", "header_values", "keys", "offsets", "row", "timestamps", "values")

    def __init__(self, columns: Columns) -> None:
        self.offsets = columns.offsets
        self.timestamps = columns.timestamps
        self.keys = BinaryFiller(columns.keys)
        self.values = BinaryFiller(columns.values)
        self.header_offsets = columns.header_offsets
        self.header_keys = BinaryFiller(columns.header_keys)
        self.header_values = BinaryFiller(columns.header_values)
        self.row = 0
        if not len(self.offsets) == len(self.timestamps) == self.keys.rows == len(self.header_offsets) - 1:
            raise AssertionError("the columns differ in length")

    def null_counts(self) -> tuple[int, int, int]:
        """Null keys, null values, null header values."""
        return self.keys.null_count, self.values.null_count, self.header_values.null_count

    def fill(
        self,
        payload: Buffer,
        count: int,
        last_offset_delta: int,
        first: int,
        end: int,
        base_offset: int,
        base_timestamp: int,
        is_timestamp_fixed: bool,
    ) -> None:
        """Append the records of one batch that `measure` counted with the same arguments."""
        cursor = RecordCursor(payload, last_offset_delta)
        for _ in range(count):
            cursor.next_record()
            if first <= cursor.offset_delta < end:
                # `add` refuses a row too many, before anything is written without a check.
                self.keys.add(cursor, cursor.key_start, cursor.key_length)
                self.values.add(cursor, cursor.value_start, cursor.value_length)
                self.offsets[self.row] = base_offset + cursor.offset_delta
                self.timestamps[self.row] = base_timestamp if is_timestamp_fixed else cursor.timestamp(base_timestamp)
                self.add_headers(cursor)
            else:
                cursor.skip_headers()
            cursor.end_record()

    def add_headers(self, cursor: RecordCursor) -> None:
        for _ in range(cursor.header_count):
            cursor.next_header()
            self.header_keys.add(cursor, cursor.header_key_start, cursor.header_key_length)
            self.header_values.add(cursor, cursor.header_value_start, cursor.header_value_length)
        self.row += 1
        self.header_offsets[self.row] = self.header_keys.row

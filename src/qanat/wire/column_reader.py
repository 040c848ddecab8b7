# cython: language_level=3, boundscheck=False, wraparound=False, annotation_typing=False, initializedcheck=False
"""Records to columns: many batches into one set of buffers in Arrow's layout, in one walk.

The size of the buffers is known only after the last record, so they grow
by doubling (`growth`) and are trimmed at the end. That is cheaper than a first walk
that only measures: memory that was reserved and not written was never allocated.
Compiled and interpreted like `record_reader`, whose cursor does the reading. Compiled, runs of ordinary records
are read many at a time (`native_fast` in the `.pxd`), up to the first unusual one.

Rule 1: room is made before every write; the compiled code has no other protection.
Rule 2: a column never exceeds `largest`, the 31 bits of Arrow's offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.model.errors import BatchTooLargeError
from qanat.wire.growth import lengthen
from qanat.wire.record_reader import RecordCursor

if TYPE_CHECKING:
    from qanat.wire.batch_header import Buffer

COMPILED = not __file__.endswith(".py")
INT32_MAX = 2**31 - 1
SMALLEST_ROWS = 64
SMALLEST_BYTES = 4096


def grown(needed: int, capacity: int, smallest: int, largest: int) -> int:
    """The next capacity: twice the last one, so that all moves together stay below the final size."""
    if needed > largest:
        raise BatchTooLargeError(
            f"a column would need {needed} bytes or rows and can have {largest}, since Arrow's offsets have 32 bits; "
            "ask for fewer batches at once"
        )
    return min(max(needed, 2 * capacity, smallest), largest)


class BinaryFiller:
    """A binary column, and how far it is filled."""

    __slots__ = (
        "bits",
        "capacity",
        "data",
        "data_buffer",
        "largest",
        "null_count",
        "offsets",
        "offsets_buffer",
        "position",
        "row",
        "rows",
        "validity",
    )

    def __init__(self, data_bytes: int, largest: int) -> None:
        self.largest = largest
        self.row = 0
        self.rows = 0
        self.position = 0
        self.capacity = 0
        self.null_count = 0
        self.validity: bytearray | None = None
        self.offsets_buffer = bytearray(4)
        self.data_buffer = bytearray()
        self.view()
        if data_bytes > 0:
            self.grow_data(min(data_bytes, largest))

    def view(self) -> None:
        """The buffers as numbers; a buffer that is viewed cannot grow."""
        self.bits = self.validity
        self.offsets = memoryview(self.offsets_buffer).cast("i")
        self.data = self.data_buffer

    def unview(self) -> None:
        self.bits = None
        self.offsets = None  # type: ignore[assignment]
        self.data = None  # type: ignore[assignment]

    def grow_rows(self, needed: int) -> None:
        rows = grown(needed, self.rows, SMALLEST_ROWS, self.largest)
        self.unview()
        try:
            lengthen(self.offsets_buffer, 4 * (rows + 1))
            if self.validity is not None:
                self.validity.extend(b"\xff" * ((rows + 7) // 8 - len(self.validity)))
            self.rows = rows
        finally:
            self.view()

    def grow_data(self, needed: int) -> None:
        capacity = grown(needed, self.capacity, SMALLEST_BYTES, self.largest)
        self.unview()
        try:
            lengthen(self.data_buffer, capacity)
            self.capacity = capacity
        finally:
            self.view()

    def first_null(self) -> None:
        """Validity is recorded from the first null on; Arrow reads a column without it as one without nulls."""
        self.validity = bytearray(b"\xff") * ((self.rows + 7) // 8)
        self.bits = self.validity

    def add(self, cursor: RecordCursor, start: int, length: int) -> None:
        """The next row, from the cursor's position; a negative length is null."""
        if self.row >= self.rows:
            self.grow_rows(self.row + 1)
        if length > 0:
            if length > self.capacity - self.position:
                self.grow_data(self.position + length)
            if COMPILED:
                native_copy(self, cursor, start, length)  # type: ignore[name-defined]  # noqa: F821
            else:
                python_copy(self, cursor, start, length)
            self.position += length
        elif length < 0:
            if self.null_count == 0:
                self.first_null()
            self.bits[self.row >> 3] &= ~(1 << (self.row & 7))  # type: ignore[index]
            self.null_count += 1
        self.row += 1
        self.offsets[self.row] = self.position

    def finish(self) -> None:
        """Trim what was reserved and not filled; no room is left, so that nothing is written without a view."""
        self.unview()
        self.rows = self.row
        self.capacity = self.position
        del self.offsets_buffer[4 * (self.row + 1) :]
        del self.data_buffer[self.position :]
        if self.validity is not None:
            del self.validity[(self.row + 7) // 8 :]

    def buffers(self) -> tuple[bytearray | None, bytearray, bytearray, int]:
        """Validity, offsets, data and the number of nulls of a finished column."""
        return self.validity, self.offsets_buffer, self.data_buffer, self.null_count


def python_copy(target: BinaryFiller, source: RecordCursor, start: int, length: int) -> None:
    """Apart, because slices here would cost the compiled function around it 30 ns that it never needs."""
    target.data[target.position : target.position + length] = source.data[start : start + length]


class BatchPlace:
    """The base of a batch's records, and which of them are wanted."""

    __slots__ = ("end", "first", "is_timestamp_fixed", "offset", "timestamp")

    def __init__(self, first: int, end: int, offset: int, timestamp: int, is_timestamp_fixed: bool) -> None:
        self.first = first
        self.end = end
        self.offset = offset
        self.timestamp = timestamp
        self.is_timestamp_fixed = is_timestamp_fixed


class ColumnFiller:
    """All columns; `expected_bytes` is the expected size of the records of all batches together."""

    __slots__ = (
        "expected_bytes",
        "header_keys",
        "header_offsets",
        "header_offsets_buffer",
        "header_values",
        "keys",
        "largest",
        "offsets",
        "offsets_buffer",
        "row",
        "rows",
        "timestamps",
        "timestamps_buffer",
        "values",
    )

    def __init__(self, expected_bytes: int, largest: int = INT32_MAX) -> None:
        self.largest = largest
        self.expected_bytes = expected_bytes
        self.row = 0
        self.rows = 0
        self.offsets_buffer = bytearray()
        self.timestamps_buffer = bytearray()
        self.header_offsets_buffer = bytearray(4)
        self.keys = BinaryFiller(0, largest)
        self.values = BinaryFiller(expected_bytes, largest)
        self.header_keys = BinaryFiller(0, largest)
        self.header_values = BinaryFiller(0, largest)
        self.view()

    def view(self) -> None:
        self.offsets = memoryview(self.offsets_buffer).cast("q")
        self.timestamps = memoryview(self.timestamps_buffer).cast("q")
        self.header_offsets = memoryview(self.header_offsets_buffer).cast("i")

    def unview(self) -> None:
        self.offsets = None  # type: ignore[assignment]
        self.timestamps = None  # type: ignore[assignment]
        self.header_offsets = None  # type: ignore[assignment]

    def grow_rows(self, needed: int) -> None:
        rows = grown(needed, self.rows, SMALLEST_ROWS, self.largest)
        self.unview()
        try:
            lengthen(self.offsets_buffer, 8 * rows)
            lengthen(self.timestamps_buffer, 8 * rows)
            lengthen(self.header_offsets_buffer, 4 * (rows + 1))
            self.rows = rows
        finally:
            self.view()

    def expect_rows(self, rows: int) -> None:
        """Room for the total rows if all batches are like the first."""
        rows = min(rows, self.largest)
        self.grow_rows(rows)
        self.keys.grow_rows(rows)
        self.values.grow_rows(rows)

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
        """Append the records of one batch whose offset deltas go from `first` to before `end`."""
        cursor = RecordCursor(payload, last_offset_delta)
        if self.rows == 0 and cursor.end > 0:
            self.expect_rows(count + count * (self.expected_bytes // cursor.end))
        base = BatchPlace(first, end, base_offset, base_timestamp, is_timestamp_fixed)
        left = count
        while left > 0:
            if COMPILED:
                self.make_room(left, cursor.end - cursor.position)
                left -= native_fast(self, cursor, base, left)  # type: ignore[name-defined]  # noqa: F821
                if left == 0:
                    break
            self.add_record(cursor, base)
            left -= 1
        cursor.end_payload()

    def make_room(self, rows: int, data_bytes: int) -> None:
        """Room for so much more, if that does not exceed the limit."""
        if self.row + rows > self.rows and self.row + rows <= self.largest:
            self.grow_rows(self.row + rows)
        for column in (self.keys, self.values):
            if column.row + rows > column.rows and column.row + rows <= self.largest:
                column.grow_rows(column.row + rows)
        needed = self.values.position + data_bytes
        if self.values.capacity < needed <= self.largest:
            self.values.grow_data(needed)

    def add_record(self, cursor: RecordCursor, base: BatchPlace) -> None:
        """The next record, of any kind; raises where it is no record."""
        cursor.next_record()
        if base.first <= cursor.offset_delta < base.end:
            if self.row >= self.rows:
                self.grow_rows(self.row + 1)
            self.keys.add(cursor, cursor.key_start, cursor.key_length)
            self.values.add(cursor, cursor.value_start, cursor.value_length)
            self.offsets[self.row] = base.offset + cursor.offset_delta
            self.timestamps[self.row] = base.timestamp if base.is_timestamp_fixed else cursor.timestamp(base.timestamp)
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

    def finish(self) -> tuple[bytearray, bytearray, bytearray]:
        """Offsets, timestamps and header offsets, once all columns are trimmed."""
        self.unview()
        self.rows = self.row
        del self.offsets_buffer[8 * self.row :]
        del self.timestamps_buffer[8 * self.row :]
        del self.header_offsets_buffer[4 * (self.row + 1) :]
        self.keys.finish()
        self.values.finish()
        self.header_keys.finish()
        self.header_values.finish()
        return self.offsets_buffer, self.timestamps_buffer, self.header_offsets_buffer

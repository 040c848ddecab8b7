# cython: language_level=3, boundscheck=False, wraparound=False, annotation_typing=False, initializedcheck=False
"""Records to the bytes of a batch's payload, from single records or from rows of columns.

Single records are measured first, so that their payload is allocated once. Rows are
measured and written one by one, in one walk that ends where the batch is full. Compiled,
rows without headers that fit go through a loop of their own, which leaves every
other row, and every error, to the walk. Both
leave room in front for the header. Compiled and interpreted like `record_reader`.

Rule 1: room in the target and bytes in the source are checked before every copy;
columns may come from anywhere. A row is measured, given room as a whole, and written by the same lengths.
Rule 2: sizes and writing agree to the byte, which is asserted. These
assertions protect memory in the compiled code, so `python -O` does not drop them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.model.errors import InvalidRecordError
from qanat.wire.growth import lengthen

if TYPE_CHECKING:
    from array import array

    from qanat.wire.batch_header import Buffer
    from qanat.wire.column_layout import Columns
    from qanat.wire.record_reader import RawHeaders, RawRecord

COMPILED = not __file__.endswith(".py")
INT64_RANGE = 1 << 64
INT64_HALF = 1 << 63
EXPECTED_BYTES = 1 << 20
"""Initial room for rows, unless their batch may not be so large; a larger one grows."""


def varint_size(value: int) -> int:
    bits = (value << 1) ^ (value >> 63)
    if bits < 0x80:
        return 1
    size = 1
    while bits >= 0x80:
        bits >>= 7
        size += 1
    return size


def difference(value: int, base: int) -> int:
    """`value - base` in 64 bits, wrapping as in Java: the inverse of what the reader adds."""
    delta = value - base
    if COMPILED or -INT64_HALF <= delta < INT64_HALF:
        return delta
    return (delta + INT64_HALF) % INT64_RANGE - INT64_HALF


def field_size(field: bytes | None) -> int:
    if field is None:
        return 1
    return varint_size(len(field)) + len(field)


class PayloadWriter:
    """Bytes to be filled from `position` to the end."""

    __slots__ = ("buffer", "end", "position", "target")

    def __init__(self, target: bytearray, position: int) -> None:
        self.buffer = target
        self.target = target
        self.position = position
        self.end = len(target)

    def byte(self, value: int) -> None:
        if self.position >= self.end:
            raise AssertionError("a record is larger than it was measured")
        self.target[self.position] = value
        self.position += 1

    def varint(self, value: int) -> None:
        bits = (value << 1) ^ (value >> 63)
        while bits >= 0x80:
            self.byte((bits & 0x7F) | 0x80)
            bits >>= 7
        self.byte(bits)

    def room(self, length: int) -> None:
        if length > self.end - self.position:
            raise AssertionError("a record is larger than it was measured")

    def field(self, field: bytes | None) -> None:
        if field is None:
            self.varint(-1)
        else:
            length = len(field)
            self.varint(length)
            self.room(length)
            if COMPILED:
                native_write(self, field, length)  # type: ignore[name-defined]  # noqa: F821
            else:
                python_write(self, field, length)
            self.position += length

    def grow(self, needed: int) -> None:
        size = max(needed, 2 * self.end)
        self.target = None  # type: ignore[assignment]
        lengthen(self.buffer, size)
        self.target = self.buffer
        self.end = size

    def cut(self) -> None:
        """End the buffer behind what was written."""
        self.target = None  # type: ignore[assignment]
        del self.buffer[self.position :]
        self.end = self.position

    def finished(self) -> None:
        if self.position != self.end:
            raise AssertionError("a record is smaller than it was measured")


def python_write(writer: PayloadWriter, field: bytes, length: int) -> None:
    """Apart, because a slice here would cost the compiled function around it 30 ns that it never needs."""
    writer.target[writer.position : writer.position + length] = field


def encode_records(records: list[RawRecord], reserved: int) -> bytearray:
    """The payload of these records after `reserved` zero bytes."""
    size = reserved
    for record in records:
        body = body_size(record)
        size += varint_size(body) + body
    payload = bytearray(size)
    writer = PayloadWriter(payload, reserved)
    for record in records:
        write_record(writer, record)
    writer.finished()
    return payload


def body_size(record: RawRecord) -> int:
    _attributes, timestamp_delta, offset_delta, key, value, headers = record
    size = 1 + varint_size(timestamp_delta) + varint_size(offset_delta)
    size += field_size(key) + field_size(value) + varint_size(len(headers))
    for header_key, header_value in headers:
        size += field_size(header_key) + field_size(header_value)
    return size


def write_record(writer: PayloadWriter, record: RawRecord) -> None:
    attributes, timestamp_delta, offset_delta, key, value, headers = record
    writer.varint(body_size(record))
    writer.byte(attributes)
    writer.varint(timestamp_delta)
    writer.varint(offset_delta)
    writer.field(key)
    writer.field(value)
    write_headers(writer, headers)


def write_headers(writer: PayloadWriter, headers: RawHeaders) -> None:
    writer.varint(len(headers))
    for header_key, header_value in headers:
        writer.field(header_key)
        writer.field(header_value)


class BinaryRows:
    """One binary column to read from; no validity means no nulls."""

    __slots__ = ("capacity", "data", "offsets", "rows", "validity")

    def __init__(self, validity: Buffer | None, offsets: array[int] | memoryview, data: Buffer) -> None:
        self.validity = validity
        self.offsets = offsets
        self.data = data
        self.capacity = len(data)
        self.rows = len(offsets) - 1
        if validity is not None and len(validity) < (self.rows + 7) // 8:
            raise InvalidRecordError(f"a column of {self.rows} rows has only {len(validity)} bytes of validity")

    def length(self, row: int) -> int:
        """Bytes of the field in this row, or -1 for null."""
        if row < 0 or row >= self.rows:
            raise InvalidRecordError(f"row {row} of a column of {self.rows} rows")
        if self.validity is not None and not self.validity[row >> 3] >> (row & 7) & 1:
            return -1
        start = self.offsets[row]
        end = self.offsets[row + 1]
        if start < 0 or end < start or end > self.capacity:
            raise InvalidRecordError(f"row {row} of a column spans bytes {start} to {end} of {self.capacity}")
        return end - start

    def size(self, row: int) -> int:
        length = self.length(row)
        return varint_size(length) + max(length, 0)

    def write(self, writer: PayloadWriter, row: int) -> None:
        self.write_measured(writer, row, self.length(row))

    def write_measured(self, writer: PayloadWriter, row: int, length: int) -> None:
        """The field of a row whose length was just measured."""
        writer.varint(length)
        if length > 0:
            writer.room(length)
            start = self.offsets[row]
            if COMPILED:
                native_copy(writer, self, start, length)  # type: ignore[name-defined]  # noqa: F821
            else:
                python_copy(writer, self, start, length)
            writer.position += length


def python_copy(writer: PayloadWriter, source: BinaryRows, start: int, length: int) -> None:
    writer.target[writer.position : writer.position + length] = source.data[start : start + length]


class RowEncoder:
    """Rows of columns as records whose offsets count from 0 in each batch."""

    __slots__ = (
        "delta",
        "header_keys",
        "header_offsets",
        "header_values",
        "key_length",
        "keys",
        "latest",
        "rows",
        "timestamps",
        "value_length",
        "values",
    )

    def __init__(self, columns: Columns) -> None:
        self.timestamps = columns.timestamps
        self.rows = len(columns.timestamps)
        self.keys = BinaryRows(columns.keys.validity, columns.keys.offsets, columns.keys.data)
        self.values = BinaryRows(columns.values.validity, columns.values.offsets, columns.values.data)
        self.header_offsets = columns.header_offsets
        self.header_keys = BinaryRows(None, columns.header_keys.offsets, columns.header_keys.data)
        self.header_values = BinaryRows(
            columns.header_values.validity, columns.header_values.offsets, columns.header_values.data
        )
        if len(self.header_offsets) < self.rows + 1:
            raise InvalidRecordError(f"{self.rows} rows have headers for only {len(self.header_offsets) - 1}")

    def check_rows(self, first: int, end: int) -> None:
        if not 0 <= first < end <= self.rows:
            raise AssertionError(f"rows {first} to {end} of {self.rows}")

    def body_size(self, first: int, row: int) -> int:
        """Measure a row; values that writing needs again are stored."""
        self.delta = difference(self.timestamps[row], self.timestamps[first])
        self.key_length = self.keys.length(row)
        self.value_length = self.values.length(row)
        size = 1 + varint_size(self.delta) + varint_size(row - first)
        size += varint_size(self.key_length) + max(self.key_length, 0)
        size += varint_size(self.value_length) + max(self.value_length, 0)
        start = self.header_offsets[row]
        end = self.header_offsets[row + 1]
        if end < start:
            raise InvalidRecordError(f"the headers of row {row} end before they begin")
        size += varint_size(end - start)
        for header in range(start, end):
            size += self.header_keys.size(header) + self.header_values.size(header)
        return size

    def encode(self, first: int, end: int, limit_bytes: int, reserved: int) -> tuple[bytearray, int, int]:
        """As many rows as fit, at least one, after `reserved` zero bytes; the row behind them; the latest timestamp."""
        self.check_rows(first, end)
        payload = bytearray(reserved)
        lengthen(payload, reserved + min(max(limit_bytes, 0), EXPECTED_BYTES))
        writer = PayloadWriter(payload, reserved)
        self.latest = self.timestamps[first]
        row = first
        while row < end:
            if COMPILED:
                limit = reserved + min(limit_bytes, writer.end - reserved)
                row = native_stretch(self, writer, first, row, end, limit)  # type: ignore[name-defined]  # noqa: F821
                if row < 0:
                    raise AssertionError("a row differs from its measured size")
                if row == end:
                    break
            body = self.body_size(first, row)
            record_end = writer.position + varint_size(body) + body
            if row > first and record_end - reserved > limit_bytes:
                break
            if record_end > writer.end:
                writer.grow(record_end)
            self.write_row(writer, first, row, body)
            if writer.position != record_end:
                raise AssertionError("a row differs from its measured size")
            self.latest = max(self.latest, self.timestamps[row])
            row += 1
        writer.cut()
        return payload, row, self.latest

    def write_row(self, writer: PayloadWriter, first: int, row: int, body: int) -> None:
        """Write a row that was just measured and has room."""
        if COMPILED:
            native_front(self, writer, row - first, row, body)  # type: ignore[name-defined]  # noqa: F821
        else:
            python_front(self, writer, row - first, row, body)
        start = self.header_offsets[row]
        end = self.header_offsets[row + 1]
        writer.varint(end - start)
        for header in range(start, end):
            self.header_keys.write(writer, header)
            self.header_values.write(writer, header)


def python_front(encoder: RowEncoder, writer: PayloadWriter, number: int, row: int, body: int) -> None:
    """A record up to its headers."""
    writer.varint(body)
    writer.byte(0)
    writer.varint(encoder.delta)
    writer.varint(number)
    encoder.keys.write_measured(writer, row, encoder.key_length)
    encoder.values.write_measured(writer, row, encoder.value_length)

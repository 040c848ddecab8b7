# cython: language_level=3, boundscheck=False, wraparound=False, annotation_typing=False, initializedcheck=False
"""The walk over a batch's records: one cursor, and the functions that gather from it.

This file is compiled where there is a compiler (`record_reader.pxd` holds the C
types) and runs as it is where there is none; both pass the same tests.

Rule 1: every length is compared with the bytes left before it is used, in C as
in Python; the compiled code has no other protection.
Rule 2: every fault in the bytes is a `CorruptBatchError`.
Rule 3: the payload is not compressed, and must not change during a call.
Rule 4: after every few thousand records, and headers of one record, other threads may run, as they always may in
interpreted code: a worker that opens a batch must not block the event loop.

`records.py` unpacks payloads and finds their headers.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from qanat.model.errors import CorruptBatchError

if TYPE_CHECKING:
    from qanat.wire.batch_header import Buffer

    RawHeaders = tuple[tuple[bytes, bytes | None], ...]
    RawRecord = tuple[int, int, int, bytes | None, bytes | None, RawHeaders]

COMPILED = not __file__.endswith(".py")
FEW_MASK = 0xFFF
"""How often other threads may run, as a mask of the number of a record or a header."""
INT64_RANGE = 1 << 64
INT64_HALF = 1 << 63


def is_compiled() -> bool:
    return bool(COMPILED)


def let_threads_run(row: int) -> None:
    """Let other threads run, if it is time."""
    if COMPILED and row & FEW_MASK == FEW_MASK:
        native_pause()  # type: ignore[name-defined]  # noqa: F821


class RecordCursor:
    """A position in a payload, and the fields of the record and header just read.

    A length of -1 is null. After `next_record` either read all its headers by
    `next_header` or call `skip_headers`; then `end_record`.
    """

    __slots__ = (
        "attributes",
        "data",
        "end",
        "header_count",
        "header_key_length",
        "header_key_start",
        "header_value_length",
        "header_value_start",
        "key_length",
        "key_start",
        "last_offset_delta",
        "offset_delta",
        "position",
        "record_end",
        "record_start",
        "timestamp_delta",
        "value_length",
        "value_start",
    )

    def __init__(self, data: Buffer, last_offset_delta: int) -> None:
        self.data = data
        self.position = 0
        self.end = len(data)
        self.record_end = 0
        self.record_start = 0
        self.offset_delta = -1
        self.last_offset_delta = last_offset_delta

    def varint(self, end: int) -> int:
        """A zigzag number of at most 64 bits that ends before `end`."""
        if self.position >= end:
            raise CorruptBatchError("a record ends in the middle of a number")
        byte = self.data[self.position]
        self.position += 1
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1)
        bits = byte & 0x7F
        # Nearly all numbers in records have one or two bytes.
        if self.position < end and self.data[self.position] < 0x80:
            bits |= self.data[self.position] << 7
            self.position += 1
            return (bits >> 1) ^ -(bits & 1)
        return self.long_varint(end, bits)

    def long_varint(self, end: int, bits: int) -> int:
        shift = 7
        while self.position < end:
            byte = self.data[self.position]
            self.position += 1
            if shift == 63 and byte > 1:
                raise CorruptBatchError("a number in a record has more than 64 bits")
            bits |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (bits >> 1) ^ -(bits & 1)
            shift += 7
        raise CorruptBatchError("a record ends in the middle of a number")

    def field(self, what: str) -> int:
        """The length of a nullable field whose bytes are there; the cursor is at its first byte."""
        length = self.varint(self.record_end)
        if length < -1 or length > self.record_end - self.position:
            raise CorruptBatchError(
                f"a record's {what} claims {length} bytes, {self.record_end - self.position} are left"
            )
        return length

    def next_record(self) -> None:
        self.record_start = self.position
        length = self.varint(self.end)
        if length < 0 or length > self.end - self.position:
            raise CorruptBatchError(f"a record claims {length} bytes, {self.end - self.position} are left")
        if length == 0:
            raise CorruptBatchError("a record without a single byte")
        self.record_end = self.position + length
        self.attributes = self.data[self.position]
        self.position += 1
        self.timestamp_delta = self.varint(self.record_end)
        delta = self.varint(self.record_end)
        if delta <= self.offset_delta or delta > self.last_offset_delta:
            raise CorruptBatchError(
                f"a record's offset delta is {delta}, after {self.offset_delta} in a batch to {self.last_offset_delta}"
            )
        self.offset_delta = delta
        self.key_length = self.field("key")
        self.key_start = self.position
        if self.key_length > 0:
            self.position += self.key_length
        self.value_length = self.field("value")
        self.value_start = self.position
        if self.value_length > 0:
            self.position += self.value_length
        self.header_count = self.varint(self.record_end)
        if self.header_count < 0 or self.header_count > (self.record_end - self.position) // 2:
            raise CorruptBatchError(
                f"a record claims {self.header_count} headers, {self.record_end - self.position} bytes are left"
            )

    def next_header(self) -> None:
        self.header_key_length = self.field("header key")
        if self.header_key_length < 0:
            raise CorruptBatchError("a record's header has no key")
        self.header_key_start = self.position
        self.position += self.header_key_length
        self.header_value_length = self.field("header value")
        self.header_value_start = self.position
        if self.header_value_length > 0:
            self.position += self.header_value_length

    def skip_headers(self) -> None:
        for number in range(self.header_count):
            self.next_header()
            let_threads_run(number)

    def end_record(self) -> None:
        if self.position != self.record_end:
            raise CorruptBatchError(f"{self.record_end - self.position} bytes of a record belong to no field")

    def end_payload(self) -> None:
        if self.position != self.end:
            raise CorruptBatchError(f"{self.end - self.position} bytes follow the last record")

    def timestamp(self, base_timestamp: int) -> int:
        """Sums wrap around as in Java, so that no producer can make a batch unreadable by them."""
        timestamp = base_timestamp + self.timestamp_delta
        if COMPILED or -INT64_HALF <= timestamp < INT64_HALF:
            return timestamp
        return (timestamp + INT64_HALF) % INT64_RANGE - INT64_HALF

    def take(self, start: int, length: int) -> bytes | None:
        """The bytes of a field; a negative length is null."""
        if length < 0:
            return None
        if COMPILED:
            return native_take(self, start, length)  # type: ignore[name-defined, no-any-return]  # noqa: F821
        return python_take(self, start, length)


def python_take(cursor: RecordCursor, start: int, length: int) -> bytes:
    """Apart, because a slice here would cost the compiled function around it 30 ns that it never needs."""
    return bytes(cursor.data[start : start + length])


def count_null_keys(payload: Buffer, count: int, last_offset_delta: int) -> int:
    """How many records have no key; checks every record."""
    cursor = RecordCursor(payload, last_offset_delta)
    null_keys = 0
    for row in range(count):
        let_threads_run(row)
        cursor.next_record()
        cursor.skip_headers()
        cursor.end_record()
        if cursor.key_length < 0:
            null_keys += 1
    cursor.end_payload()
    return null_keys


def split_records(payload: Buffer, count: int, last_offset_delta: int) -> list[RawRecord]:
    """Each record as (attributes, timestamp delta, offset delta, key, value, headers)."""
    cursor = RecordCursor(payload, last_offset_delta)
    records = []
    for row in range(count):
        let_threads_run(row)
        cursor.next_record()
        headers = split_headers(cursor)
        cursor.end_record()
        key = cursor.take(cursor.key_start, cursor.key_length)
        value = cursor.take(cursor.value_start, cursor.value_length)
        records.append((cursor.attributes, cursor.timestamp_delta, cursor.offset_delta, key, value, headers))
    cursor.end_payload()
    return records


def split_headers(cursor: RecordCursor) -> RawHeaders:
    if cursor.header_count == 0:
        return ()
    headers = []
    for number in range(cursor.header_count):
        let_threads_run(number)
        cursor.next_header()
        key = cursor.take(cursor.header_key_start, cursor.header_key_length)
        assert key is not None
        headers.append((key, cursor.take(cursor.header_value_start, cursor.header_value_length)))
    return tuple(headers)


def build_records(
    payload: Buffer,
    count: int,
    last_offset_delta: int,
    first_delta: int,
    base_offset: int,
    base_timestamp: int,
    is_timestamp_fixed: bool,
    make: Callable[..., Any],
    topic: str,
    partition: int,
    delivery_count: int,
    leader_epoch: int,
) -> list[Any]:
    """The records from `first_delta` on, each as `make(topic, partition, offset, timestamp, key, value, headers,
    delivery count, leader epoch)`; one call per record is all that Python sees of it."""
    cursor = RecordCursor(payload, last_offset_delta)
    records = []
    for row in range(count):
        let_threads_run(row)
        cursor.next_record()
        if cursor.offset_delta < first_delta:
            cursor.skip_headers()
            cursor.end_record()
            continue
        headers = text_headers(cursor)
        cursor.end_record()
        records.append(
            make(
                topic,
                partition,
                base_offset + cursor.offset_delta,
                base_timestamp if is_timestamp_fixed else cursor.timestamp(base_timestamp),
                cursor.take(cursor.key_start, cursor.key_length),
                cursor.take(cursor.value_start, cursor.value_length),
                headers,
                delivery_count,
                leader_epoch,
            )
        )
    cursor.end_payload()
    return records


def text_headers(cursor: RecordCursor) -> tuple[tuple[str, bytes | None], ...]:
    """Headers with names as text; invalid UTF-8 gets replacement characters, as in Java's client."""
    if cursor.header_count == 0:
        return ()
    return tuple([(name.decode("utf-8", "replace"), content) for name, content in split_headers(cursor)])


def scan_keys(payload: Buffer, count: int, last_offset_delta: int) -> tuple[array[int], list[bytes | None], bytearray]:
    """Offset deltas, keys, and a 1 for each record whose value is null."""
    deltas = array("q", bytes(8 * count))
    tombstones = bytearray(count)
    keys: list[bytes | None] = []
    fill_scan(RecordCursor(payload, last_offset_delta), count, deltas, tombstones, keys)
    return deltas, keys, tombstones


def fill_scan(
    cursor: RecordCursor, count: int, deltas: array[int], tombstones: bytearray, keys: list[bytes | None]
) -> None:
    for row in range(count):
        let_threads_run(row)
        cursor.next_record()
        cursor.skip_headers()
        cursor.end_record()
        deltas[row] = cursor.offset_delta
        tombstones[row] = cursor.value_length < 0
        keys.append(cursor.take(cursor.key_start, cursor.key_length))
    cursor.end_payload()


def filter_records(
    payload: Buffer, count: int, last_offset_delta: int, keep: bytes, base_timestamp: int
) -> tuple[bytearray, int]:
    """The retained records byte for byte, and the largest timestamp among them."""
    if len(keep) != count:
        raise AssertionError(f"{len(keep)} decisions about {count} records")
    kept = bytearray(len(payload))
    end, latest = fill_kept(RecordCursor(payload, last_offset_delta), count, keep, base_timestamp, kept)
    del kept[end:]
    return kept, latest


def fill_kept(cursor: RecordCursor, count: int, keep: bytes, base_timestamp: int, kept: bytearray) -> tuple[int, int]:
    end = 0
    latest = 0
    for row in range(count):
        let_threads_run(row)
        cursor.next_record()
        cursor.skip_headers()
        cursor.end_record()
        if keep[row]:
            timestamp = cursor.timestamp(base_timestamp)
            if end == 0 or timestamp > latest:
                latest = timestamp
            length = cursor.record_end - cursor.record_start
            if COMPILED:
                native_copy(kept, end, cursor, length)  # type: ignore[name-defined]  # noqa: F821
            else:
                python_copy(kept, end, cursor, length)
            end += length
    cursor.end_payload()
    return end, latest


def python_copy(target: bytearray, at: int, cursor: RecordCursor, length: int) -> None:
    target[at : at + length] = cursor.data[cursor.record_start : cursor.record_start + length]

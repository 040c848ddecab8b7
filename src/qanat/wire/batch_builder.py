# cython: language_level=3, boundscheck=False, wraparound=False, annotation_typing=False, initializedcheck=False
"""A batch that grows record by record: what a producer fills until it is sent.

Each record is written once, into the batch's own bytes, when it is added. Compiled and interpreted like
`record_reader`; both give the same bytes as `record_writer.encode_records`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.wire.growth import lengthen
from qanat.wire.record_writer import PayloadWriter, difference, field_size, varint_size

if TYPE_CHECKING:
    from qanat.wire.record_reader import RawHeaders

FIRST_BYTES = 2048
"""Initial room; it doubles."""


class BatchBuilder:
    """The records of one batch after `reserved` bytes for its header."""

    __slots__ = ("base_timestamp", "count", "limit_bytes", "max_timestamp", "payload", "size", "writer")

    def __init__(self, limit_bytes: int, reserved: int) -> None:
        self.limit_bytes = limit_bytes
        self.count = 0
        self.base_timestamp = 0
        self.max_timestamp = 0
        self.size = reserved
        payload = bytearray(reserved)
        lengthen(payload, max(reserved, FIRST_BYTES))
        self.payload = payload
        self.writer = PayloadWriter(payload, reserved)

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: RawHeaders) -> int:
        """The index of the record in the batch; -1 where it does not fit, except that a first record always does."""
        count = self.count
        if count == 0:
            self.base_timestamp = timestamp
            self.max_timestamp = timestamp
        delta = difference(timestamp, self.base_timestamp)
        body = 1 + varint_size(delta) + varint_size(count)
        body += field_size(key) + field_size(value) + varint_size(len(headers))
        for header_key, header_value in headers:
            body += field_size(header_key) + field_size(header_value)
        writer = self.writer
        end = writer.position + varint_size(body) + body
        if end > self.limit_bytes and count > 0:
            return -1
        if end > writer.end:
            writer.grow(end)
        writer.varint(body)
        writer.byte(0)
        writer.varint(delta)
        writer.varint(count)
        writer.field(key)
        writer.field(value)
        writer.varint(len(headers))
        for header_key, header_value in headers:
            writer.field(header_key)
            writer.field(header_value)
        if writer.position != end:
            raise AssertionError("a record differs from its measured size")
        self.size = end
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.count = count + 1
        return count

    def finish(self) -> bytearray:
        """The batch's bytes; nothing can be added any more."""
        self.writer.cut()
        self.limit_bytes = 0
        return self.payload

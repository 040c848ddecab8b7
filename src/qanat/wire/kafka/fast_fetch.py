"""The most common Fetch, read and written without the codec: one partition, by a consumer without a session.

A frame that is unusual, wrong or of another version gives None and takes the ordinary path (`messages/fetch`), which
also words the errors.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from qanat.wire.batch_header import Buffer

VERSION = 11
"""The version that librdkafka sends without topic ids."""
_FETCH = 1
_CONSUMER = -1
_READ_COMMITTED = 1
_NO_SESSION, _SESSIONLESS = 0, -1

_read_header = Struct(">hhih").unpack_from
_HEADER_SIZE = 10
_REQUEST = Struct(">iiiibiiih")
"""Replica, longest wait, least and most bytes, isolation level, session and its epoch, topics, length of a name."""
_read_request = _REQUEST.unpack_from
_PARTITION = Struct(">iiiqqiih")
"""Partitions, number, leader epoch, offset, log start, most bytes; forgotten topics, length of a rack's name."""
_read_partition = _PARTITION.unpack_from
_HEAD = Struct(">iiihiih")
"""Size and correlation id; throttling, error, session, topics, length of a name."""
_write_head = _HEAD.pack
_TAIL = Struct(">iihqqqiii")
"""Partitions, number, error, three offsets, aborted transactions, preferred read replica, bytes of records."""
_write_tail = _TAIL.pack
_BYTES_AROUND_NAME = _HEAD.size - 4 + _TAIL.size


class FastFetch(NamedTuple):
    """The fields of such a request."""

    correlation_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    is_committed: bool
    topic: str
    partition: int
    leader_epoch: int
    offset: int


def read_fast_fetch(data: Buffer) -> FastFetch | None:
    """The request in a frame; None where it is not of this form."""
    try:
        key, version, correlation_id, length = _read_header(data)
        if key != _FETCH or version != VERSION or length < -1:
            return None
        position = _HEADER_SIZE + length if length > 0 else _HEADER_SIZE
        replica, max_wait_ms, min_bytes, max_bytes, isolation, session, epoch, topics, length = _read_request(
            data, position
        )
        name_at = position + _REQUEST.size
        position = name_at + length
        if length < 1 or replica != _CONSUMER or session != _NO_SESSION or epoch != _SESSIONLESS or topics != 1:
            return None
        count, number, leader_epoch, offset, _, most_bytes, forgotten, rack = _read_partition(data, position)
        if count != 1 or forgotten or rack or position + _PARTITION.size != len(data):
            return None
        name = str(data[name_at:position], "utf-8")
        str(data[_HEADER_SIZE : name_at - _REQUEST.size], "utf-8")
    except (struct.error, UnicodeDecodeError):
        return None
    room = min(max_bytes, most_bytes)
    is_committed = isolation == _READ_COMMITTED
    return FastFetch(correlation_id, max_wait_ms, min_bytes, room, is_committed, name, number, leader_epoch, offset)


def write_fast_fetch_head(
    request: FastFetch, high_watermark: int, last_stable_offset: int, log_start_offset: int, size: int
) -> bytes:
    """The answer up to its records, which are `size` bytes."""
    name = request.topic.encode()
    head = _write_head(_BYTES_AROUND_NAME + len(name) + size, request.correlation_id, 0, 0, 0, 1, len(name))
    aborted = 0 if request.is_committed else -1
    return (
        head
        + name
        + _write_tail(1, request.partition, 0, high_watermark, last_stable_offset, log_start_offset, aborted, -1, size)
    )

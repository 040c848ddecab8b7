"""The most common Fetch, read and written without the codec: one partition, by a consumer without a session.

Versions 11 to 17: librdkafka sends 16, which names the topic by id as all do from 13 on, and 11 to older brokers.
A frame that is unusual, wrong or of another version gives None and takes the ordinary path (`messages/fetch`), which
also words the errors.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from qanat.wire.kafka.writing import Chunk, encode_compact_string, encode_uvarint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qanat.wire.batch_header import Buffer

FIRST_VERSION, FLEXIBLE_FROM, TOPIC_IDS_FROM, LAST_VERSION = 11, 12, 13, 17
_STATES_FROM = 15
"""From here on only a follower says who it is."""
_FETCH = 1
_READ_COMMITTED = 1
_NO_SESSION, _SESSIONLESS = 0, -1
_CONSUMER, _NO_EPOCH = -1, -1
_LONGEST_NAME = 126
"""A longer one has two bytes of length in the flexible version."""

_read_header = Struct(">hhih").unpack_from
_HEADER_SIZE = 10
_REQUEST = Struct(">iiiibiiih")
"""Replica, longest wait, least and most bytes, isolation level, session and its epoch, topics, length of the name."""
_FLEXIBLE_REQUEST = Struct(">BiiiibiiBB")
"""The same behind the header's tags; the last two are one more than they say."""
_REPLICA_REQUEST = Struct(">BiiiibiiB16s")
"""With the topic's id."""
_CONSUMER_REQUEST = Struct(">BiiibiiB16s")
"""Without the replica."""
_PARTITION = Struct(">iiiqqiih")
"""Partitions, number, leader epoch, offset, log start, most bytes; forgotten topics, length of a rack's name."""
_FLEXIBLE_PARTITION = Struct(">Biiqiqi5s")
"""The same with the epoch of the last record; then tags of the partition and topic, forgotten topics, rack, tags."""
_NOTHING_MORE = b"\0\0\1\1\0"

_HEAD = Struct(">iiihiih")
"""Size and correlation id; throttling, error, session, topics, length of the name."""
_FLEXIBLE_HEAD = Struct(">iiBihiB")
"""The same with the header's tags, up to the topics."""
_TAIL = Struct(">iihqqqiii")
"""Partitions, number, error, three offsets, aborted transactions, preferred read replica, bytes of records."""
_FLEXIBLE_TAIL = Struct(">BihqqqBi")
"""The same up to the bytes of records."""
_NO_TAGS = b"\0\0\0"
"""Of the partition, the topic and the response: behind the records."""
# Looked up once: every fetch needs them.
_read_request, _read_partition = _REQUEST.unpack_from, _PARTITION.unpack_from
_read_consumer_request, _read_flexible_partition = _CONSUMER_REQUEST.unpack_from, _FLEXIBLE_PARTITION.unpack_from
_write_head, _write_tail = _HEAD.pack, _TAIL.pack
_write_flexible_head, _write_flexible_tail = _FLEXIBLE_HEAD.pack, _FLEXIBLE_TAIL.pack
_BYTES_AROUND_NAME = _HEAD.size - 4 + _TAIL.size


class FastFetch(NamedTuple):
    """The fields of such a request; from version 13 on the topic is its id."""

    version: int
    correlation_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    is_committed: bool
    topic: str | bytes
    partition: int
    leader_epoch: int
    offset: int


def read_fast_fetch(data: Buffer) -> FastFetch | None:
    """The request in a frame; None where it is not of this form."""
    try:
        key, version, correlation_id, length = _read_header(data)
        if key != _FETCH or not FIRST_VERSION <= version <= LAST_VERSION or length < -1:
            return None
        position = _HEADER_SIZE + length if length > 0 else _HEADER_SIZE
        str(data[_HEADER_SIZE:position], "utf-8")
        if version >= TOPIC_IDS_FROM:
            return _by_id(data, position, version, correlation_id)
        if version >= FLEXIBLE_FROM:
            return _flexible(data, position, version, correlation_id)
        return _plain(data, position, version, correlation_id)
    except (struct.error, UnicodeDecodeError):
        return None


def _plain(data: Buffer, position: int, version: int, correlation_id: int) -> FastFetch | None:
    replica, wait_ms, least, most, isolation, session, epoch, topics, length = _read_request(data, position)
    if length < 1 or replica != _CONSUMER or session != _NO_SESSION or epoch != _SESSIONLESS or topics != 1:
        return None
    name_at = position + _REQUEST.size
    position = name_at + length
    count, number, leader_epoch, offset, _, room, forgotten, rack = _read_partition(data, position)
    if count != 1 or forgotten or rack or position + _PARTITION.size != len(data):
        return None
    name, most, is_committed = str(data[name_at:position], "utf-8"), min(most, room), isolation == _READ_COMMITTED
    return FastFetch(version, correlation_id, wait_ms, least, most, is_committed, name, number, leader_epoch, offset)


def _flexible(data: Buffer, position: int, version: int, correlation_id: int) -> FastFetch | None:
    tags, replica, wait_ms, least, most, isolation, session, epoch, topics, length = _FLEXIBLE_REQUEST.unpack_from(
        data, position
    )
    if tags or replica != _CONSUMER or session != _NO_SESSION or epoch != _SESSIONLESS or topics != 2:
        return None
    name_at = position + _FLEXIBLE_REQUEST.size
    position = name_at + length - 1
    count, number, leader_epoch, offset, last_epoch, _, room, rest = _read_flexible_partition(data, position)
    if not 2 <= length <= _LONGEST_NAME + 1 or position + _FLEXIBLE_PARTITION.size != len(data):
        return None
    if count != 2 or last_epoch != _NO_EPOCH or rest != _NOTHING_MORE:
        return None
    name, most, is_committed = str(data[name_at:position], "utf-8"), min(most, room), isolation == _READ_COMMITTED
    return FastFetch(version, correlation_id, wait_ms, least, most, is_committed, name, number, leader_epoch, offset)


def _by_id(data: Buffer, position: int, version: int, correlation_id: int) -> FastFetch | None:
    replica = _CONSUMER
    if version >= _STATES_FROM:
        tags, wait_ms, least, most, isolation, session, epoch, topics, topic_id = _read_consumer_request(data, position)
        position += _CONSUMER_REQUEST.size
    else:
        tags, replica, wait_ms, least, most, isolation, session, epoch, topics, topic_id = _REPLICA_REQUEST.unpack_from(
            data, position
        )
        position += _REPLICA_REQUEST.size
    if tags or replica != _CONSUMER or session != _NO_SESSION or epoch != _SESSIONLESS or topics != 2:
        return None
    count, number, leader_epoch, offset, last_epoch, _, room, rest = _read_flexible_partition(data, position)
    if position + _FLEXIBLE_PARTITION.size != len(data):
        return None
    if count != 2 or last_epoch != _NO_EPOCH or rest != _NOTHING_MORE:
        return None
    most, is_committed = min(most, room), isolation == _READ_COMMITTED
    return FastFetch(
        version, correlation_id, wait_ms, least, most, is_committed, topic_id, number, leader_epoch, offset
    )


def write_fast_fetch(
    request: FastFetch, high: int, stable: int, start: int, records: Sequence[memoryview], size: int
) -> list[Chunk]:
    """The answer: high watermark, last stable offset, log start offset, and the records, which are `size` bytes."""
    topic = request.topic
    if request.version >= FLEXIBLE_FROM:
        named = topic if isinstance(topic, bytes) else encode_compact_string(topic)
        aborted = 1 if request.is_committed else 0
        tail = _write_flexible_tail(2, request.partition, 0, high, stable, start, aborted, -1) + encode_uvarint(
            size + 1
        )
        whole = _FLEXIBLE_HEAD.size - 4 + len(named) + len(tail) + size + len(_NO_TAGS)
        head = _write_flexible_head(whole, request.correlation_id, 0, 0, 0, 0, 2) + named + tail
        return [head, *records, _NO_TAGS]
    assert isinstance(topic, str), "a name up to version 12"
    name = topic.encode()
    head = _write_head(_BYTES_AROUND_NAME + len(name) + size, request.correlation_id, 0, 0, 0, 1, len(name)) + name
    aborted = 0 if request.is_committed else -1
    return [head + _write_tail(1, request.partition, 0, high, stable, start, aborted, -1, size), *records]

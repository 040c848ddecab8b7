"""The payload of DATA. Form 0 is one record; form 1 is record batches as they lie in the log.

Form 0 `[form 1][topic 2][partition 4][leader epoch 4][offset 8][timestamp 8][event 1][key][value][headers 2]`, where
key and value are `[length 4][bytes]` with -1 for none, and each header is `[length 2][name][length 4][bytes]`.
Form 1 `[form 1][topic 2][partition 4][leader epoch 4][first offset 8][end offset 8]`, then batches of Kafka's format.

`topic` is the place of its name in the list of topics of the first frame. Of the batches, records before `first offset`
are skipped by the receiver. A producer's DATA has its sequence number in place of the offset, and may leave the
choice of the partition to the broker (-1).
"""

from __future__ import annotations

from struct import Struct, error
from typing import NamedTuple

from qanat.model.errors import MalformedMessageError

RECORD, BATCHES = 0, 1
"""The forms."""
MESSAGE, DELETE = ord("M"), ord("D")
"""The events: a record, and a tombstone."""
ANY_PARTITION = -1
NO_SEQUENCE = -1

Headers = tuple[tuple[bytes, bytes | None], ...]

_RECORD = Struct(">BHiiqqBi")
_BATCHES = Struct(">BHiiqq")
_LENGTH = Struct(">i")
_SHORT = Struct(">H")
RECORD_OVERHEAD = _RECORD.size + _LENGTH.size + _SHORT.size
BATCHES_OVERHEAD = _BATCHES.size


class PushedRecord(NamedTuple):
    """Form 0."""

    topic: int
    partition: int
    leader_epoch: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def event(self) -> int:
        return DELETE if self.value is None else MESSAGE


class PushedBatches(NamedTuple):
    """Form 1."""

    topic: int
    partition: int
    leader_epoch: int
    first_offset: int
    end_offset: int
    batches: memoryview


def encode_record(record: PushedRecord) -> bytes:
    return encode_fields(*record)


def encode_fields(
    topic: int,
    partition: int,
    epoch: int,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
) -> bytes:
    """The same from its fields: for many records at once."""
    event = DELETE if value is None else MESSAGE
    key_length = -1 if key is None else len(key)
    front = _RECORD.pack(RECORD, topic, partition, epoch, offset, timestamp, event, key_length)
    value_length = _LENGTH.pack(-1 if value is None else len(value))
    if not headers:
        return b"".join((front, key or b"", value_length, value or b"", b"\0\0"))
    parts = [front, key or b"", value_length, value or b"", _SHORT.pack(len(headers))]
    for name, content in headers:
        parts += (_SHORT.pack(len(name)), name, _LENGTH.pack(-1 if content is None else len(content)), content or b"")
    return b"".join(parts)


def batches_front(topic: int, partition: int, leader_epoch: int, first_offset: int, end_offset: int) -> bytes:
    """What stands in front of the batches of form 1."""
    return _BATCHES.pack(BATCHES, topic, partition, leader_epoch, first_offset, end_offset)


def decode_data(payload: memoryview) -> PushedRecord | PushedBatches:
    """Read a payload of either form; raises `MalformedMessageError` where it is of neither, or its lengths lie."""
    form = payload[0] if len(payload) else -1
    try:
        if form == RECORD:
            return _record(payload)
        if form == BATCHES:
            _, topic, partition, epoch, first, end = _BATCHES.unpack_from(payload)
            return PushedBatches(topic, partition, epoch, first, end, payload[_BATCHES.size :])
    except error:
        raise MalformedMessageError("the payload of DATA ends before its fields do") from None
    raise MalformedMessageError(f"DATA of form {form} is not known; forms are 0 (one record) and 1 (batches)")


def _record(payload: memoryview) -> PushedRecord:
    _, topic, partition, epoch, offset, timestamp, event, length = _RECORD.unpack_from(payload)
    key, at = _bytes(payload, _RECORD.size, length)
    (length,) = _LENGTH.unpack_from(payload, at)
    value, at = _bytes(payload, at + _LENGTH.size, length)
    (count,) = _SHORT.unpack_from(payload, at)
    headers, at = _headers(payload, at + _SHORT.size, count) if count else ((), at + _SHORT.size)
    if at != len(payload):
        raise MalformedMessageError(f"{len(payload) - at} bytes follow the record of a DATA frame")
    if event != (DELETE if value is None else MESSAGE):
        raise MalformedMessageError("the event of a record is M with a value and D without one")
    return PushedRecord(topic, partition, epoch, offset, timestamp, key, value, headers)


def _bytes(payload: memoryview, at: int, length: int) -> tuple[bytes | None, int]:
    if length < 0:
        if length != -1:
            raise MalformedMessageError(f"a field of {length} bytes is announced")
        return None, at
    end = at + length
    if end > len(payload):
        raise MalformedMessageError(f"a field of {length} bytes is announced, {len(payload) - at} are left")
    return bytes(payload[at:end]), end


def _headers(payload: memoryview, at: int, count: int) -> tuple[Headers, int]:
    found: list[tuple[bytes, bytes | None]] = []
    for _ in range(count):
        (length,) = _SHORT.unpack_from(payload, at)
        name, at = _bytes(payload, at + _SHORT.size, length)
        (length,) = _LENGTH.unpack_from(payload, at)
        content, at = _bytes(payload, at + _LENGTH.size, length)
        found.append((name or b"", content))
    return tuple(found), at

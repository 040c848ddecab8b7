"""Records as they come over HTTP: one, an array, or a line each; made into what a batch is written from.

A value is JSON unless `value_encoding` says otherwise, and is kept as it was written. A key is text. `null` as a value
is a tombstone.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw

from qanat.servers.http.exchange import decoded
from qanat.servers.http.operations import Asked
from qanat.servers.http.problems import Problem

Acks = Literal["all", "leader", "none"]
KeyEncoding = Literal["text", "base64"]
ValueEncoding = Literal["json", "text", "base64"]
PartitionNumber = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Timestamp = Annotated[int, Meta(ge=0, le=2**63 - 1)]
TopicName = Annotated[str, Meta(min_length=1, max_length=249)]
RawHeaders = tuple[tuple[bytes, bytes | None], ...]

_NULL = b"null"
_PIECE_BYTES = 128 * 1024


class RecordIn(Asked, frozen=True, gc=False):
    """A record to be written."""

    value: Raw
    """Any JSON value; null is a tombstone."""
    key: str | None = None
    """Records with the same key stay in order, in one partition."""
    topic: TopicName | None = None
    """Where it goes; may be left out where the address or the request says it."""
    partition: PartitionNumber | None = None
    """Which partition; without it the key decides, without a key they take turns."""
    timestamp: Timestamp | None = None
    """Milliseconds since 1970; without it the time of arrival."""
    headers: dict[str, str | None] | None = None
    """Names and texts."""
    key_encoding: KeyEncoding = "text"
    """How `key` is to be read."""
    value_encoding: ValueEncoding = "json"
    """How `value` is to be read: `text` and `base64` need a JSON string, whose content is written."""
    acks: Acks | None = None
    """Of a single record: when it is answered."""


class RecordsIn(Asked, frozen=True):
    """Several records at once."""

    records: list[RecordIn]
    topic: TopicName | None = None
    """Topic of those records that name none."""
    acks: Acks | None = None


class Outgoing(msgspec.Struct, gc=False):
    """A record on its way: where to, and what is written."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: RawHeaders
    timestamp: int
    partition: int
    """-1 before it is chosen."""


_ONE = msgspec.json.Decoder(RecordIn)
_MANY = msgspec.json.Decoder(list[RecordIn])
_WRAPPED = msgspec.json.Decoder(RecordsIn)


class _Shape(msgspec.Struct):
    """Whether a body has several records."""

    records: Raw = Raw()


_SHAPE = msgspec.json.Decoder(_Shape)


class Incoming(msgspec.Struct):
    """What one request brings."""

    records: list[RecordIn]
    is_single: bool
    topic: str | None
    acks: Acks | None


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def pieces_of(body: bytes) -> Iterator[bytes]:
    """Whole lines, a piece at a time that is read in a millisecond."""
    start = 0
    while start < len(body):
        end = body.find(b"\n", min(start + _PIECE_BYTES, len(body)))
        end = len(body) if end < 0 else end + 1
        yield body[start:end]
        start = end


async def read_lines(body: bytes) -> Incoming:
    """One record a line; a mistake is told with its line."""
    check_text(body)
    records: list[RecordIn] = []
    first = 1
    for piece in pieces_of(body):
        try:
            records += _ONE.decode_lines(piece)
        except (msgspec.DecodeError, RecursionError):
            for number, line in enumerate(piece.split(b"\n"), first):
                if line.strip():
                    decoded(_ONE, line, f"line {number}")
            raise
        first += piece.count(b"\n")
        await asyncio.sleep(0)
    return Incoming(records, False, None, None)


def read_json(body: bytes) -> Incoming:
    """One record, an array of them, or an object with `records`."""
    check_text(body)
    if body.lstrip()[:1] == b"[":
        return Incoming(decoded(_MANY, body), False, None, None)
    try:
        one = _ONE.decode(body)
    except (msgspec.DecodeError, RecursionError):
        if not bytes(decoded(_SHAPE, body).records):
            one = decoded(_ONE, body)
        else:
            wrapped = decoded(_WRAPPED, body)
            return Incoming(wrapped.records, False, wrapped.topic, wrapped.acks)
    return Incoming([one], True, None, one.acks)


def check_text(body: bytes) -> None:
    """Raise where a body is not UTF-8: JSON inside values is passed on as it is."""
    if body.isascii():
        return
    try:
        body.decode()
    except UnicodeDecodeError as fault:
        raise Problem(400, f"the body is not UTF-8: byte {fault.start}", position=fault.start) from None


def outgoing(record: RecordIn, default_topic: str | None, now_ms: int) -> Outgoing:
    """A record made ready; raises a problem that says what is wrong with it."""
    topic = record.topic or default_topic
    if topic is None:
        raise Problem(400, "topic is missing: name it in the record", pointer=".topic")
    if default_topic is not None and topic != default_topic and record.topic is not None:
        raise Problem(400, f"the record names topic {topic}, the request {default_topic}: name one", pointer=".topic")
    return Outgoing(
        topic,
        _key(record),
        _value(record),
        _headers(record.headers) if record.headers else (),
        now_ms if record.timestamp is None else record.timestamp,
        -1 if record.partition is None else record.partition,
    )


def _key(record: RecordIn) -> bytes | None:
    key = record.key
    if key is None:
        return None
    return key.encode() if record.key_encoding == "text" else _unpacked(key, "key")


def _value(record: RecordIn) -> bytes | None:
    data = bytes(record.value)
    if record.value_encoding == "json":
        return None if data == _NULL else data
    if data == _NULL:
        return None
    try:
        text = msgspec.json.decode(data, type=str)
    except msgspec.DecodeError:
        raise Problem(
            400, f"a value of value_encoding {record.value_encoding} must be a JSON string", pointer=".value"
        ) from None
    return text.encode() if record.value_encoding == "text" else _unpacked(text, "value")


def _unpacked(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Problem(400, f"the {what} is not base64", pointer=f".{what}") from None


def _headers(headers: dict[str, str | None]) -> RawHeaders:
    return tuple([(name.encode(), None if text is None else text.encode()) for name, text in headers.items()])

"""Records as clients send them over HTTP: one, an array, or a line each.

A value is JSON unless `value_encoding` says otherwise, and is written as it was sent. A key is text. `null` as a value
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

from qanat.servers.http.inputs import RequestBody, decoded
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


class RecordIn(RequestBody, frozen=True, gc=False):
    """A record to write."""

    value: Raw
    """Any JSON value; null is a tombstone."""
    key: str | None = None
    """Records with the same key stay in order, in one partition."""
    topic: TopicName | None = None
    """Its topic; may be left out where the address or the request names it."""
    partition: PartitionNumber | None = None
    """Its partition; without it the key decides, without a key the partitions take turns."""
    timestamp: Timestamp | None = None
    """Milliseconds since 1970; without it the time of arrival."""
    headers: dict[str, str | None] | None = None
    """Names and texts."""
    key_encoding: KeyEncoding = "text"
    """How to decode `key`."""
    value_encoding: ValueEncoding = "json"
    """How to decode `value`: `text` and `base64` need a JSON string, whose content is written."""
    acks: Acks | None = None
    """For a single record: when it is answered."""
    raw_headers: list[tuple[str, str | None]] | None = None
    """Headers as pairs of base64, instead of `headers`: names may repeat, values may be any bytes."""


class RecordsIn(RequestBody, frozen=True):
    """Several records at once."""

    records: list[RecordIn]
    topic: TopicName | None = None
    """Topic of records that name none."""
    acks: Acks | None = None


class ProducerRecord(msgspec.Struct, gc=False):
    """A record to write: its partition and its bytes."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: RawHeaders
    timestamp: int
    partition: int
    """-1 until it is chosen."""


_ONE = msgspec.json.Decoder(RecordIn)
_MANY = msgspec.json.Decoder(list[RecordIn])
_WRAPPED = msgspec.json.Decoder(RecordsIn)


class _Shape(msgspec.Struct):
    """Whether a body has several records."""

    records: Raw = Raw()


_SHAPE = msgspec.json.Decoder(_Shape)


class ProduceBody(msgspec.Struct):
    """The records of one request."""

    records: list[RecordIn]
    is_single: bool
    topic: str | None
    acks: Acks | None


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def pieces_of(body: bytes) -> Iterator[bytes]:
    """Whole lines, in pieces that are decoded in a millisecond."""
    start = 0
    while start < len(body):
        end = body.find(b"\n", min(start + _PIECE_BYTES, len(body)))
        end = len(body) if end < 0 else end + 1
        yield body[start:end]
        start = end


async def read_lines(body: bytes) -> ProduceBody:
    """One record a line; a problem names its line."""
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
    return ProduceBody(records, False, None, None)


def read_json(body: bytes) -> ProduceBody:
    """One record, an array of them, or an object with `records`."""
    check_text(body)
    if body.lstrip()[:1] == b"[":
        return ProduceBody(decoded(_MANY, body), False, None, None)
    try:
        one = _ONE.decode(body)
    except (msgspec.DecodeError, RecursionError):
        if not bytes(decoded(_SHAPE, body).records):
            one = decoded(_ONE, body)
        else:
            wrapped = decoded(_WRAPPED, body)
            return ProduceBody(wrapped.records, False, wrapped.topic, wrapped.acks)
    return ProduceBody([one], True, None, one.acks)


def check_text(body: bytes) -> None:
    """Raise where a body is not UTF-8: JSON inside values is written unchanged."""
    if body.isascii():
        return
    try:
        body.decode()
    except UnicodeDecodeError as fault:
        raise Problem(400, f"the body is not UTF-8: byte {fault.start}", position=fault.start) from None


def producer_record(record: RecordIn, default_topic: str | None, now_ms: int) -> ProducerRecord:
    """A record as it is written; raises a problem that names the fault."""
    topic = record.topic or default_topic
    if topic is None:
        raise Problem(400, "topic is missing: name it in the record", pointer=".topic")
    if default_topic is not None and topic != default_topic and record.topic is not None:
        raise Problem(400, f"the record names topic {topic}, the request {default_topic}: name one", pointer=".topic")
    return ProducerRecord(
        topic,
        _key(record),
        _value(record),
        _headers(record) if record.headers or record.raw_headers else (),
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
        verb = "are" if what.endswith("s") else "is"
        raise Problem(400, f"the {what} {verb} not base64", pointer=f".{what}") from None


def _headers(record: RecordIn) -> RawHeaders:
    if record.raw_headers is None:
        headers = record.headers or {}
        return tuple([(name.encode(), None if text is None else text.encode()) for name, text in headers.items()])
    if record.headers:
        raise Problem(400, "the record has headers and raw_headers: give one of them", pointer=".raw_headers")
    return tuple(
        [
            (_unpacked(name, "raw_headers"), None if value is None else _unpacked(value, "raw_headers"))
            for name, value in record.raw_headers
        ]
    )

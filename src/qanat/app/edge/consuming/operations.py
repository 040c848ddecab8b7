"""The REST operations of a consumer application: what may be asked, and the answers."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from qanat.app.edge.consuming.reading import Found, Query, Times
from qanat.servers.http.inputs import Parameters
from qanat.servers.http.problems import Problem
from qanat.servers.http.records.record_json import to_message

if TYPE_CHECKING:
    from collections.abc import Sequence

Number = Annotated[int, Meta(ge=0, lt=2**31)]
Offset = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Time = Annotated[int, Meta(ge=-1, le=2**63 - 1)]
Limit = Annotated[int, Meta(ge=1, le=1000)]


class RecordsQuery(Parameters, frozen=True):
    """Which records, and how many at most."""

    topic: str | None = None
    """The topic; not needed where there is one."""
    partition: Number | None = None
    key: str | None = None
    key_base64: str | None = None
    """The key, where it is no text."""
    from_offset: Offset | None = None
    to_offset: Offset | None = None
    """Exclusive."""
    from_time: Time | None = None
    """Milliseconds since 1970."""
    to_time: Time | None = None
    """Exclusive."""
    limit: Limit = 100
    cursor: str | None = None
    """`next_cursor` of the page before."""


class LatestQuery(Parameters, frozen=True):
    """Which keys, and how many at most."""

    topic: str | None = None
    key: str | None = None
    key_base64: str | None = None
    prefix: str = ""
    """Only keys that begin so."""
    limit: Limit = 100
    cursor: str | None = None


class KeyQuery(Parameters, frozen=True):
    """The topic of a key."""

    topic: str | None = None


class StoredRecord(msgspec.Struct, gc=False):
    """A record as JSON."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since 1970, -1 where there is none."""
    key: str | None
    value: Raw
    """JSON where it is JSON, otherwise a string: see `value_encoding`."""
    headers: dict[str, str | None]
    leader_epoch: int
    key_encoding: Literal["base64"] | UnsetType = UNSET
    value_encoding: Literal["text", "base64"] | UnsetType = UNSET


class RecordsAnswer(msgspec.Struct):
    """A page of records."""

    records: list[StoredRecord]
    next_cursor: str | None


def stored_record(found: Found) -> StoredRecord:
    record = found.record
    headers = tuple((name.encode(), content) for name, content in record.headers)
    raw = (record.attributes, 0, 0, record.key, record.value, headers)
    one = to_message(found.at.partition, record.offset, record.timestamp, raw, "auto")
    return StoredRecord(
        found.at.topic,
        one.partition,
        one.offset,
        one.timestamp,
        one.key,
        one.value,
        one.headers,
        found.epoch,
        one.key_encoding,
        one.value_encoding,
    )


def topic_of(given: str | None, topics: Sequence[str]) -> str:
    """The topic that is meant; raises a problem where there is none of that name."""
    if given is None:
        if len(topics) > 1:
            raise Problem(400, f"name one of the topics {', '.join(topics)}: topic=", parameter="topic")
        return topics[0]
    if given not in topics:
        raise Problem(404, f"this application keeps {', '.join(topics)}, not {given}")
    return given


def key_of(key: str | None, key_base64: str | None) -> bytes | None:
    if key is not None and key_base64 is not None:
        raise Problem(400, "key and key_base64 are the same: give one of them", parameter="key_base64")
    if key_base64 is None:
        return None if key is None else key.encode()
    try:
        return base64.b64decode(key_base64, validate=True)
    except ValueError as fault:  # Of binascii, or not ASCII.
        raise Problem(400, f"key_base64 is not base64: {fault}", parameter="key_base64") from None


def latest_key_of(asked: LatestQuery) -> bytes | None:
    """The key that is asked for; None where keys are listed."""
    key = key_of(asked.key, asked.key_base64)
    if key is not None and (asked.prefix or asked.cursor is not None):
        name = "prefix" if asked.prefix else "cursor"
        raise Problem(400, f"{name} is for listings: leave it out, or leave out the key", parameter=name)
    return key


def query_of(asked: RecordsQuery, topics: Sequence[str], partitions: Sequence[int]) -> Query:
    """The query that the parameters describe; `partitions` are those that are held of a single topic."""
    topic = topic_of(asked.topic, topics)
    offsets = asked.from_offset, asked.to_offset
    partition = asked.partition
    if partition is None and offsets != (None, None):
        if len(partitions) > 1:
            raise Problem(
                400, f"offsets count within a partition: name one of {_listed(partitions)}", parameter="partition"
            )
        partition = partitions[0] if partitions else 0
    _check_range("from_offset", "to_offset", offsets)
    times = asked.from_time, asked.to_time
    _check_range("from_time", "to_time", times)
    return Query(topic, partition, key_of(asked.key, asked.key_base64), offsets, times)


def _listed(partitions: Sequence[int]) -> str:
    return ", ".join(map(str, partitions[:20]))


def _check_range(first: str, last: str, bounds: Times) -> None:
    if bounds[0] is not None and bounds[1] is not None and bounds[1] < bounds[0]:
        raise Problem(400, f"{last} is {bounds[1]}, before {first}, {bounds[0]}", parameter=last)


def number_in_path(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) < 2**63):
        raise Problem(400, f"{name} is {text!r}, but must be a whole number", parameter=name)
    return int(text)

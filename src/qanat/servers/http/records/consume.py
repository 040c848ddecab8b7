"""Operations that read records: `GET /consume`, and cursors over all partitions of a topic."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from qanat.cluster import values
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.inputs import Parameters
from qanat.servers.http.operations import Operation
from qanat.servers.http.problems import Problem
from qanat.servers.http.records.partition_reads import EARLIEST, LATEST, Cursor
from qanat.servers.http.records.record_json import Encoding, Message
from qanat.servers.http.records.record_parsing import PartitionNumber, TopicName

Isolation = Literal["read_committed", "read_uncommitted"]
Count = Annotated[int, Meta(ge=1)]
Wait = Annotated[int, Meta(ge=0)]
Offset = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_COUNT = 100


class ConsumeQuery(Parameters, frozen=True):
    """What to read."""

    topic: TopicName | None = None
    """Which topic; may be left out where there is only one."""
    partition: PartitionNumber | None = None
    """Which partition; may be left out where the topic has only one."""
    offset: Offset | Literal["earliest", "latest"] = "earliest"
    """Where to begin: a number, `earliest` or `latest`."""
    count: Count = _COUNT
    """How many records at most; more than `http.max.poll.records` are never sent."""
    timeout_ms: Wait = 0
    """How long to wait where there is nothing yet."""
    isolation: Isolation = "read_committed"
    """Whether records of transactions are seen before they are committed."""
    encoding: Encoding = "auto"
    """How keys and values are shown: `auto` shows JSON as JSON, text as text and the rest as base64."""


class RecordsQuery(Parameters, frozen=True):
    """What to read."""

    cursor: str | None = None
    """Where to go on: `next_cursor` of an earlier answer."""
    begin: str = msgspec.field(name="from", default="earliest")
    """Where to begin without a cursor: `earliest`, `latest`, or a time in ISO 8601 or milliseconds."""
    count: Count = _COUNT
    """How many records at most."""
    timeout_ms: Wait = 0
    """How long to wait where there is nothing yet."""
    isolation: Isolation = "read_committed"
    """Whether records of transactions are seen before they are committed."""
    encoding: Encoding = "auto"
    """How keys and values are shown."""


class Consumed(msgspec.Struct):
    """Records of one partition, and where to go on."""

    messages: list[Message]
    next_offset: int


class ConsumedAll(msgspec.Struct):
    """Records of a topic, and where to go on."""

    messages: list[Message]
    next_cursor: str


async def consume(exchange: Exchange) -> Consumed:
    query: ConsumeQuery = exchange.query
    context, caller = exchange.context, exchange.caller
    topic = await (
        context.topics.only(caller)
        if query.topic is None
        else context.topics.find(caller, query.topic, may_create=False)
    )
    number = query.partition
    if number is None:
        if len(topic.partitions) > 1:
            raise Problem(
                400,
                f"partition is missing: topic {topic.name} has {len(topic.partitions)}; add partition=0 to "
                f"{len(topic.partitions) - 1}, or read all at /api/v1/topics/{topic.name}/records",
            )
        number = 0
    context.topics.check_partition(topic, number)
    if isinstance(query.offset, int):
        offset = query.offset
    else:
        at = EARLIEST if query.offset == "earliest" else LATEST
        offset = (await context.reads.offsets_at(caller, topic.name, [number], at))[number]
    positions = {number: offset}
    messages = await _read(exchange, topic, positions)
    return Consumed(messages, positions[number])


async def read_topic(exchange: Exchange) -> ConsumedAll:
    query: RecordsQuery = exchange.query
    topic = await exchange.context.topics.find(exchange.caller, exchange.path["topic"], may_create=False)
    cursor = await begin_at(exchange, topic, query.cursor, query.begin)
    positions = dict(enumerate(cursor.offsets))
    messages = await _read(exchange, topic, positions)
    cursor.offsets = [positions[number] for number in range(len(positions))]
    return ConsumedAll(messages, str(cursor))


async def _read(exchange: Exchange, topic: values.Topic, positions: dict[int, int]) -> list[Message]:
    """The records that a query asks for, within the limits; `positions` move on."""
    query: ConsumeQuery | RecordsQuery = exchange.query
    settings = exchange.context.settings
    return await exchange.context.reads.read(
        exchange.caller,
        topic.name,
        positions,
        count=min(query.count, settings.http_max_poll_records),
        max_bytes=settings.http_answer_max_bytes,
        wait_ms=min(query.timeout_ms, settings.http_poll_max_ms),
        is_committed=query.isolation == "read_committed",
        encoding=query.encoding,
    )


async def begin_at(exchange: Exchange, topic: values.Topic, cursor: str | None, begin: str) -> Cursor:
    """The given cursor, or a new one at the beginning."""
    if cursor is not None:
        return Cursor.parse(cursor, topic)
    return await exchange.context.reads.cursor(exchange.caller, topic, time_of(begin))


def time_of(text: str) -> int:
    """`earliest`, `latest`, milliseconds or ISO 8601 as a Kafka timestamp; raises a problem otherwise."""
    if text in ("earliest", "latest"):
        return EARLIEST if text == "earliest" else LATEST
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
        return round((moment if moment.tzinfo else moment.astimezone()).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise Problem(
            400, f"{text[:100]!r} is no time: write earliest, latest, milliseconds since 1970, or 2026-01-31T12:00:00Z"
        ) from None


OPERATIONS = (
    Operation(
        "GET",
        "/consume",
        consume,
        "Read records of one partition from an offset on",
        "records",
        query=ConsumeQuery,
        answer=Consumed,
        waits=True,
        is_long_poll=True,
    ),
    Operation(
        "GET",
        "/api/v1/topics/{topic}/records",
        read_topic,
        "Read records of all partitions from a cursor on",
        "records",
        query=RecordsQuery,
        answer=ConsumedAll,
        waits=True,
        is_long_poll=True,
    ),
)

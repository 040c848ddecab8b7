"""`GET /api/v1/topics/{topic}/dead-letters`: where each letter comes from, and why it is one."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from qanat.connection.dead_letters.reading import FoundLetter, read_letters
from qanat.servers.http.dead_letters.selecting import Where, ranges_of, selection_of
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.gateway_cluster import GatewayCluster
from qanat.servers.http.inputs import Parameters
from qanat.servers.http.operations import Operation
from qanat.servers.http.records.record_json import Encoding, Message, to_message
from qanat.servers.http.records.record_parsing import PartitionNumber

_COUNT = 100


class LettersQuery(Parameters, frozen=True):
    """Which letters."""

    origin: str | None = None
    """Only letters from this topic."""
    origin_partition: PartitionNumber | None = None
    """Only letters from this partition of their topic."""
    group: str | None = None
    """Only letters that this group gave up."""
    error: str | None = None
    """Only letters whose reason has this text, in any case."""
    where: Where | None = None
    """Only letters that meet this condition, as of `qanat consume --where`, without `matches`."""
    partition: PartitionNumber | None = None
    """Only this partition of the topic of dead letters."""
    begin: str | None = msgspec.field(name="from", default=None)
    """Where to begin: `offset:17`, or a time in ISO 8601 or milliseconds."""
    until: str | None = None
    """Where to end (exclusive), likewise."""
    pending: bool = False
    """Only letters that were not redriven."""
    count: Annotated[int, Meta(ge=1)] = _COUNT
    """How many letters at most; more than `http.max.poll.records` are never sent."""
    encoding: Encoding = "auto"
    """How keys and values are shown."""


class LetterView(msgspec.Struct):
    """A dead letter."""

    topic: str
    """The topic that it comes from."""
    partition: int
    offset: int
    error: str
    group: str | None
    delivery_count: int | None
    is_redriven: bool
    letter: Message
    """The record as it is in the topic of dead letters; its own headers only."""


class LetterPage(msgspec.Struct):
    """Some letters."""

    letters: list[LetterView]


async def list_dead_letters(exchange: Exchange) -> LetterPage:
    query: LettersQuery = exchange.query
    topic = exchange.path["topic"]
    selection = selection_of(query.origin, query.origin_partition, query.group, query.error, query.where)
    cluster = GatewayCluster(exchange.context.gateway, exchange.caller)
    ranges = await ranges_of(cluster, topic, query.partition, query.begin, query.until)
    most = min(query.count, exchange.context.settings.http_max_poll_records)
    found: list[LetterView] = []
    async for letters in read_letters(cluster, topic, ranges, selection):
        found += [_view(one, query.encoding) for one in letters if not (query.pending and one.is_redriven)]
        if len(found) >= most:
            break
    return LetterPage(found[:most])


def _view(found: FoundLetter, encoding: Encoding) -> LetterView:
    origin, record = found.letter.origin, found.record
    headers = tuple((name.encode(), value) for name, value in found.letter.headers)
    raw = (0, 0, 0, record.key, record.value, headers)
    return LetterView(
        origin.topic,
        origin.partition,
        origin.offset,
        origin.message,
        origin.group,
        origin.delivery_count,
        found.is_redriven,
        to_message(found.partition, record.offset, record.timestamp, raw, encoding),
    )


OPERATIONS = (
    Operation(
        "GET",
        "/api/v1/topics/{topic}/dead-letters",
        list_dead_letters,
        "List dead letters: where they come from, and why",
        "dead letters",
        query=LettersQuery,
        answer=LetterPage,
    ),
)

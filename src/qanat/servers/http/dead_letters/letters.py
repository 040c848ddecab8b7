"""`GET /api/v1/topics/{topic}/dead-letters`: where each letter comes from, and why it is one."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from qanat.connection.dead_letters.reading import FoundLetter, read_letters
from qanat.servers.http.dead_letters.selecting import Wanted
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.gateway_cluster import GatewayCluster
from qanat.servers.http.inputs import Parameters
from qanat.servers.http.operations import Operation
from qanat.servers.http.records.record_json import Encoding, Message, to_message

_COUNT = 100


class LettersQuery(Parameters, Wanted, frozen=True):
    """Which letters."""

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
    selection = query.selection()
    cluster = GatewayCluster(exchange.context.gateway, exchange.caller)
    ranges = await query.ranges(cluster, topic)
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

"""Opens a stream of a topic's records, for Server-Sent Events and for WebSocket."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from qanat.servers.http.dead_letters.selecting import Where
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.records.consume import Isolation, begin_at
from qanat.servers.http.records.partition_reads import Cursor
from qanat.servers.http.records.record_json import Encoding, Message
from qanat.servers.http.records.search import condition_of
from qanat.servers.http.records.value_decoding import DecodingQuery, reader_of
from qanat.servers.http.streams.stream_writer import StreamWriter


class StreamQuery(DecodingQuery, frozen=True):
    """What to stream."""

    cursor: str | None = None
    """Where to continue: the id of the last event, where the header Last-Event-ID cannot be sent."""
    begin: str = msgspec.field(name="from", default="latest")
    """Where to begin without a cursor: `earliest`, `latest`, or a time in ISO 8601 or milliseconds."""
    isolation: Isolation = "read_committed"
    """Whether records of transactions are seen before they are committed."""
    where: Where | None = None
    """Only records that meet this condition, as of a search."""
    encoding: Encoding = "auto"
    """How keys and values are shown."""


async def open_stream(
    exchange: Exchange, query: StreamQuery, render: Callable[[Message, Cursor], bytes]
) -> StreamWriter:
    """The writer of the topic's records from Last-Event-ID, the query's cursor or the query's beginning on."""
    topic = await exchange.context.topics.find(exchange.caller, exchange.path["topic"], may_create=False)
    last = exchange.header(b"last-event-id")
    cursor = await begin_at(exchange, topic, last.decode("latin-1") if last else query.cursor, query.begin)
    return StreamWriter(
        exchange.context,
        exchange.caller,
        topic.name,
        cursor,
        is_committed=query.isolation == "read_committed",
        encoding=query.encoding,
        reader=reader_of(exchange, topic.name, query),
        condition=condition_of(query.where),
        render=render,
    )

"""Server-Sent Events: a topic's records as they arrive; the last event's id resumes."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import msgspec

from qanat.servers.http.exchange import Exchange
from qanat.servers.http.inputs import Parameters
from qanat.servers.http.operations import SENT, Operation
from qanat.servers.http.problems import Problem
from qanat.servers.http.records.consume import Isolation, begin_at
from qanat.servers.http.records.partition_reads import Cursor
from qanat.servers.http.records.record_json import Encoding, Message
from qanat.servers.http.streams.stream_limits import limit_kernel
from qanat.servers.http.streams.stream_writer import SlowReaderError, StreamWriter
from qanat.telemetry.events import log_event

_ENCODE = msgspec.json.Encoder().encode
_STILL_THERE = b": still connected\n\n"


class StreamQuery(Parameters, frozen=True):
    """What to stream."""

    cursor: str | None = None
    """Where to continue: the id of the last event, where the header Last-Event-ID cannot be sent."""
    begin: str = msgspec.field(name="from", default="latest")
    """Where to begin without a cursor: `earliest`, `latest`, or a time in ISO 8601 or milliseconds."""
    isolation: Isolation = "read_committed"
    """Whether records of transactions are seen before they are committed."""
    encoding: Encoding = "auto"
    """How keys and values are shown."""


async def stream_topic(exchange: Exchange) -> object:
    query: StreamQuery = exchange.query
    context, caller = exchange.context, exchange.caller
    topic = await context.topics.find(caller, exchange.path["topic"], may_create=False)
    last = exchange.header(b"last-event-id")
    cursor = await begin_at(exchange, topic, last.decode("latin-1") if last else query.cursor, query.begin)
    writer = StreamWriter(
        context,
        caller,
        topic.name,
        cursor,
        is_committed=query.isolation == "read_committed",
        encoding=query.encoding,
        render=_event,
    )
    with context.streams.admit(caller.host):
        limit_kernel(exchange.scope["transport"])
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
        await exchange.send({"type": "http.response.start", "status": 200, "headers": headers})
        first = b"retry: 1000\nid: %s\nevent: open\ndata: {}\n\n" % str(cursor).encode()
        await exchange.send({"type": "http.response.body", "body": first, "more_body": True})
        if exchange.scope["method"] != "HEAD":
            loop = asyncio.get_running_loop()
            stream = loop.create_task(_send_all(exchange, writer))
            await context.streams.run(stream, loop.create_task(exchange.wait_until_gone()))
        await exchange.send({"type": "http.response.body", "body": b""})
    return SENT


async def _send_all(exchange: Exchange, writer: StreamWriter) -> None:
    send = exchange.send
    try:
        async with aclosing(writer.pieces(exchange.scope["flow"])) as pieces:
            async for piece in pieces:
                await send({"type": "http.response.body", "body": b"".join(piece) or _STILL_THERE, "more_body": True})
    except SlowReaderError:
        log_event("stream closed: its client does not read", level="info", peer=exchange.caller.peer)
        exchange.abort()
    except Problem as problem:
        # The answer has started: the problem is its last event.
        text = b"event: problem\ndata: %s\n\n" % problem.encode(exchange.scope["path"]).strip()
        await send({"type": "http.response.body", "body": text, "more_body": True})


def _event(message: Message, cursor: Cursor) -> bytes:
    return b"id: %s\ndata: %s\n\n" % (str(cursor).encode(), _ENCODE(message))


OPERATIONS = (
    Operation(
        "GET",
        "/api/v1/topics/{topic}/stream",
        stream_topic,
        "Records as they arrive, as Server-Sent Events; Last-Event-ID resumes",
        "streams",
        query=StreamQuery,
        answers={"text/event-stream": str},
        waits=True,
    ),
)

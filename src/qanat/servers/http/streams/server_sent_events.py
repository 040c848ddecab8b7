"""Server-Sent Events: a topic's records as they arrive; the last event's id resumes."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import msgspec

from qanat.servers.http.exchange import Exchange
from qanat.servers.http.operations import SENT, Operation
from qanat.servers.http.problems import Problem
from qanat.servers.http.records.partition_reads import Cursor
from qanat.servers.http.records.record_json import Message
from qanat.servers.http.streams.stream_limits import limit_kernel
from qanat.servers.http.streams.stream_writer import SlowReaderError, StreamWriter
from qanat.servers.http.streams.topic_stream import StreamQuery, open_stream
from qanat.telemetry.events import log_event

_ENCODE = msgspec.json.Encoder().encode
_STILL_THERE = b": still connected\n\n"


async def stream_topic(exchange: Exchange) -> object:
    streams = exchange.context.streams
    writer = await open_stream(exchange, exchange.query, _event)
    with streams.admit(exchange.caller.host):
        limit_kernel(exchange.scope["transport"])
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
        await exchange.send({"type": "http.response.start", "status": 200, "headers": headers})
        first = b"retry: 1000\nid: %s\nevent: open\ndata: {}\n\n" % str(writer.cursor).encode()
        await exchange.send({"type": "http.response.body", "body": first, "more_body": True})
        if exchange.scope["method"] != "HEAD":
            loop = asyncio.get_running_loop()
            stream = loop.create_task(_send_all(exchange, writer))
            lost = await streams.run(stream, loop.create_task(exchange.wait_until_gone()), writer.lost)
            if lost is not None and exchange.scope["flow"].write_paused:
                exchange.abort()  # It would have to read first.
            elif lost is not None:
                await _send_problem(exchange, lost)
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
        await _send_problem(exchange, problem)


async def _send_problem(exchange: Exchange, problem: Problem) -> None:
    """The answer has started: the problem is its last event."""
    text = b"event: problem\ndata: %s\n\n" % problem.encode(exchange.scope["path"]).strip()
    await exchange.send({"type": "http.response.body", "body": text, "more_body": True})


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
        is_long_poll=True,
    ),
)

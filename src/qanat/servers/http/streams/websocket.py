"""WebSocket: a topic's records as they arrive, one JSON text each, with the cursor to resume from.

/api/v1/topics/{topic}/ws?cursor=...     what the client sends is ignored; it may disconnect at any time
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from qanat.model.errors import QanatError
from qanat.servers.http.api_keys import authorization_of
from qanat.servers.http.caller import caller_of
from qanat.servers.http.denials import with_denial
from qanat.servers.http.exchange import Exchange, Receive, Scope, Send, refuse_other_pages
from qanat.servers.http.operations import Operation, Routes, read_query
from qanat.servers.http.problems import CONTENT_TYPE, Problem, problem_of
from qanat.servers.http.records.partition_reads import Cursor
from qanat.servers.http.records.record_json import Message
from qanat.servers.http.streams.stream_limits import limit_kernel
from qanat.servers.http.streams.stream_writer import SlowReaderError, StreamWriter
from qanat.servers.http.streams.topic_stream import StreamQuery, open_stream

if TYPE_CHECKING:
    from qanat.servers.http.context import HttpContext

_ENCODE = msgspec.json.Encoder().encode
_TRY_AGAIN_LATER, _POLICY = 1013, 1008
_REASON_MAX = 120


async def websocket_topic(exchange: Exchange) -> object:
    """Served by `serve_websocket`; a request without an upgrade gets advice."""
    raise Problem(
        426,
        "this address speaks WebSocket: send Connection: Upgrade and Upgrade: websocket",
        headers=((b"upgrade", b"websocket"), (b"connection", b"upgrade")),
    )


OPERATIONS = (
    Operation(
        "GET",
        "/api/v1/topics/{topic}/ws",
        websocket_topic,
        "Records as they arrive over a WebSocket, each with the cursor to resume from",
        "streams",
        query=StreamQuery,
        status=101,
    ),
)
_ROUTES = Routes(OPERATIONS)


class _Flow:
    """Whether uvicorn's `send` would wait: it waits inside the call."""

    __slots__ = ("_writable",)

    def __init__(self, writable: asyncio.Event) -> None:
        self._writable = writable

    @property
    def write_paused(self) -> bool:
        return not self._writable.is_set()

    async def drain(self) -> None:
        await self._writable.wait()


async def serve_websocket(context: HttpContext, scope: Scope, receive: Receive, send: Send) -> None:
    """One WebSocket, from its handshake to its end."""
    assert (await receive())["type"] == "websocket.connect"
    caller = caller_of(scope, context.gateway.security)
    exchange = Exchange(context, caller, scope, receive, send)
    try:
        operation, exchange.path = _ROUTES.find("GET", scope["path"])
        refuse_other_pages(exchange)
        if context.authentication.is_required:
            caller.authenticated(await context.authentication.authenticate(authorization_of(scope), caller))
        query: StreamQuery = read_query(operation, scope["query_string"])
        writer = await open_stream(exchange, query, _text)
        with context.streams.admit(caller.host):
            limit_kernel(scope["transport"])
            await send({"type": "websocket.accept"})
            loop = asyncio.get_running_loop()
            stream = loop.create_task(_send_all(exchange, writer))
            lost = await context.streams.run(stream, loop.create_task(_wait_until_gone(receive)), writer.lost)
            if lost is not None and not scope["writable"].is_set():
                exchange.abort()  # It would have to read first.
            elif lost is not None:
                await _close(send, lost)
    except Problem as problem:
        await _refuse(send, with_denial(problem, caller, websocket_topic.__name__), scope)
    except QanatError as fault:
        await _refuse(send, problem_of(fault.code, scope["path"], str(fault)), scope)


async def _send_all(exchange: Exchange, writer: StreamWriter) -> None:
    send = exchange.send
    try:
        async with aclosing(writer.pieces(_Flow(exchange.scope["writable"]))) as pieces:
            async for piece in pieces:
                for text in piece:
                    await send({"type": "websocket.send", "text": text.decode()})
    except SlowReaderError:
        await send({"type": "websocket.close", "code": _TRY_AGAIN_LATER, "reason": "the client does not read"})
    except Problem as problem:
        await _close(send, problem)


async def _close(send: Send, problem: Problem) -> None:
    await send({"type": "websocket.close", "code": _POLICY, "reason": problem.detail[:_REASON_MAX]})


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "websocket.disconnect":
        pass


async def _refuse(send: Send, problem: Problem, scope: Scope) -> None:
    body = problem.encode(scope["path"])
    headers = [(b"content-type", CONTENT_TYPE), (b"content-length", b"%d" % len(body)), *problem.headers]
    await send({"type": "websocket.http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})


def _text(message: Message, cursor: Cursor) -> bytes:
    return b'{"cursor":"%s",%s' % (str(cursor).encode(), _ENCODE(message)[1:])

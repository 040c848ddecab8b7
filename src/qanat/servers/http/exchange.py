"""One HTTP request, as operations see it."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from qanat.servers.http.problems import Problem

if TYPE_CHECKING:
    from qanat.servers.http.caller import HttpCaller
    from qanat.servers.http.context import HttpContext

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_READS = ("GET", "HEAD")
_PAGES = (None, b"same-origin", b"none")
"""What a browser says of a request's cause where that is a page of the same address, or the user."""
_INFLATE_PIECE = 1024 * 1024
_INFLATED_HERE = 16 * 1024
"""Larger bodies are inflated in a worker."""


class GoneError(Exception):
    """The client disconnected before its request was complete."""


class Exchange:
    """A request: its caller, path, query and body, and the parts that answer it."""

    __slots__ = ("_headers", "_receive", "body", "caller", "context", "path", "query", "scope", "send")

    def __init__(self, context: HttpContext, caller: HttpCaller, scope: Scope, receive: Receive, send: Send) -> None:
        self.context = context
        self.caller = caller
        self.scope = scope
        self.send = send
        self._receive = receive
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self.path: dict[str, str] = {}
        """The path's parameters."""
        self.query: Any = None
        """The operation's query parameters, checked."""
        self.body: Any = None
        """The operation's body, checked; as sent where the operation reads it itself."""

    def header(self, name: bytes) -> bytes | None:
        return self._headers.get(name)

    async def read_body(self) -> bytes:
        """The whole body, inflated, within the limits."""
        settings = self.context.settings
        limit = settings.http_request_max_bytes
        announced = self.header(b"content-length")
        if announced is not None and int(announced) > limit:
            raise _too_large(f"{int(announced)} bytes are announced", limit)
        body = await self._read(limit)
        encoding = self.header(b"content-encoding")
        if encoding is None or encoding.lower() == b"identity":
            return body
        if encoding.lower() not in (b"gzip", b"x-gzip"):
            raise Problem(
                415, "only gzip is understood as Content-Encoding", headers=((b"accept-encoding", b"gzip, identity"),)
            )
        if len(body) < _INFLATED_HERE:
            return _inflated(body, settings.http_inflated_max_bytes)
        return await asyncio.to_thread(_inflated, body, settings.http_inflated_max_bytes)

    async def _read(self, limit: int) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise GoneError
        body: bytes = message["body"]
        if not message["more_body"]:
            if len(body) > limit:
                raise _too_large(f"{len(body)} bytes were sent", limit)
            return body
        parts, size = [body], len(body)
        while message["more_body"]:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise GoneError
            parts.append(message["body"])
            size += len(message["body"])
            if size > limit:
                raise _too_large("more was sent", limit)
        return b"".join(parts)

    def abort(self) -> None:
        """Close the connection at once: unsent bytes are lost."""
        self.scope["transport"].abort()

    async def wait_until_gone(self) -> None:
        """Return when the client disconnects; for streams, which read nothing more."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _too_large(what: str, limit: int) -> Problem:
    return Problem(
        413,
        f"the body is too large: {what}, at most {limit} are taken; send several requests, "
        "or raise http.request.max.bytes",
        headers=((b"connection", b"close"),),
    )


def _inflated(body: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj(wbits=31)
    parts: list[bytes] = []
    size, rest = 0, body
    try:
        while rest and not inflater.eof:
            part = inflater.decompress(rest, _INFLATE_PIECE)
            rest = inflater.unconsumed_tail
            parts.append(part)
            size += len(part)
            if size > limit:
                raise Problem(
                    413, f"the body inflates to more than {limit} bytes (http.inflated.max.bytes); send less at a time"
                )
    except zlib.error as fault:
        raise Problem(400, f"the body is not gzip, though Content-Encoding says so: {fault}") from None
    if not inflater.eof:
        raise Problem(400, "the body ends in the middle of its gzip stream: send all of it")
    return b"".join(parts)


def refuse_other_pages(exchange: Exchange) -> None:
    """Refuse web pages from elsewhere: they must not use a broker that their reader happens to reach."""
    host, origin = exchange.header(b"host"), exchange.header(b"origin")
    if not exchange.context.authentication.is_required:
        exchange.context.hosts.require(host)
    if origin is None or origin.partition(b"://")[2] == host or exchange.context.origins.allows(origin):
        return
    raise Problem(
        403,
        "a web page of another origin asks: list its origin in http.cors.allowed.origins, serve it from this address, "
        "or ask from a program of your own",
    )


def refuse_other_sites(exchange: Exchange, *, needs_origin: bool) -> None:
    """Refuse a request that a page of another address caused."""
    host, origin = exchange.header(b"host"), exchange.header(b"origin")
    is_elsewhere = origin is not None and origin.partition(b"://")[2] != host
    lacks_origin = origin is None and needs_origin and exchange.scope["method"] not in _READS
    if is_elsewhere or lacks_origin or exchange.header(b"sec-fetch-site") not in _PAGES:
        raise Problem(
            403,
            "a session serves the pages of this address only: open /console here, "
            "or send Authorization in place of the cookie",
        )


def check_document(exchange: Exchange, body: bytes) -> None:
    """Refuse a JSON document that would hold the loop while it is decoded."""
    limit = exchange.context.settings.http_document_max_bytes
    if len(body) > limit:
        raise Problem(
            413,
            f"a JSON document may have {limit} bytes (http.document.max.bytes), this has {len(body)}: "
            "send several, or records as lines (application/x-ndjson)",
        )

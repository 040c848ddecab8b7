"""A small HTTP client on one connection that is kept: for pipes between brokers, and for the registry.

Rule 1: it times out by silence, not by duration: an answer may take minutes on a slow link, as long as bytes arrive.
Rule 2: an answer larger than allowed ends the connection before it is held in memory.
Rule 3: one request at a time; a connection that met a fault, or whose request was cancelled, is closed. A kept one that
        its server has closed meanwhile costs a repeatable request nothing: it goes out again on a new one.
Rule 4: after a cut, the system retries what it has sent at pauses that double; an answer may come long after the link
        does. So whoever waits for an answer that is overdue tries another connection beside: once that one stands, and
        the first is silent still, the request goes there. Requests that may be sent twice alone do so. Each further
        time it waits twice as long: on a slow link a request comes through at last.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

import httptools
from msgspec import Struct

from qanat.connection.faults import UnreachableError

SILENCE_S = 10.0
"""How long a server may be silent beyond the wait that it was allowed."""
DIAL_AGAIN_S = 2.0
"""A connection that does not come about is tried anew beside, so often: the system's own retries come ever later."""
OVERDUE_S = 1.5
"""How long an answer may be overdue before another connection is tried."""
_GRACE_S = 0.5
_ROUND_TRIP = struct.Struct("=68xI")
"""Of Linux' `tcp_info`: microseconds."""
_OK = 200
_READ_BYTES = 256 * 1024
_HEADERS_MAX = 64 * 1024


class SilentError(UnreachableError):
    """Not a byte came in time: the link is cut, or the machine is down. Nobody has work with the next attempt."""


class HttpAnswer(Struct, frozen=True):
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    waited_ms: int
    """From the request to the first byte of the answer."""
    took_ms: int
    """From the first byte of the answer to its last."""


OnPart = Callable[[Sequence[bytes], int, int], None]
"""Called with the parts of a body that are here, their size, and the size of the whole body."""


def _ignore(parts: Sequence[bytes], size: int, whole: int) -> None:
    pass


_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class HttpClient:
    """One server; connects when it is needed, and again after a fault."""

    def __init__(self, url: str, *, authorization: str = "", answer_bytes_max: int = 16 * 1024 * 1024) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._is_secure = parts.scheme == "https"
        self._port = parts.port or (443 if self._is_secure else 80)
        self._base = parts.path.rstrip("/")
        self._name = parts.netloc.rpartition("@")[2]
        self._authorization = authorization
        self._answer_bytes_max = answer_bytes_max
        self._stream: _Stream | None = None
        self._busy = asyncio.Lock()

    async def request(
        self,
        method: str,
        target: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        wait_s: float = 0.0,
        is_repeatable: bool = False,
        overdue_s: float | None = None,
        on_part: OnPart = _ignore,
    ) -> HttpAnswer:
        """The answer to a request that the server may park for `wait_s`; raises `UnreachableError` for every fault, a
        `SilentError` where not a byte came. One that `is_repeatable` may reach the server twice: where it is silent for
        `overdue_s`, by default a little more than it may park. `on_part` is told of each part of an answer with
        status 200."""
        message = self._head(method, target, body, headers or {}) + (body or b"")
        async with self._busy:
            is_done = False
            try:
                if is_repeatable:
                    limit_s = wait_s + OVERDUE_S if overdue_s is None else overdue_s
                    answer, is_kept = await self._exchange_beside(message, wait_s, limit_s, on_part)
                else:
                    answer, is_kept = await self._exchange(await self._connected(), message, wait_s, _Received(on_part))
                is_done = is_kept
                return answer
            except TimeoutError:
                raise SilentError(f"{self._name}: it is silent") from None
            except (OSError, EOFError, httptools.HttpParserError) as fault:
                raise UnreachableError(f"{self._name}: {_reason(fault)}") from None
            finally:
                if not is_done:
                    await self._drop()

    async def _connected(self) -> _Stream:
        if self._stream is None:
            self._stream = await self._dial()
        return self._stream

    async def _dial(self) -> _Stream:
        """A new connection: the first that comes about of those begun one after the other (rule 4)."""
        begun: set[asyncio.Task[_Stream]] = set()
        try:
            async with asyncio.timeout(SILENCE_S):
                while True:
                    begun.add(asyncio.ensure_future(self._open()))
                    done, _ = await asyncio.wait(begun, timeout=DIAL_AGAIN_S, return_when=asyncio.FIRST_COMPLETED)
                    if done:
                        first = done.pop()
                        begun.discard(first)
                        return first.result()
        finally:
            for one in begun:
                one.add_done_callback(_abort)
                one.cancel()

    async def _open(self) -> _Stream:
        context = ssl.create_default_context() if self._is_secure else None
        return await asyncio.open_connection(self._host, self._port, ssl=context, limit=_READ_BYTES * 4)

    async def _exchange_beside(
        self, message: bytes, wait_s: float, overdue_s: float, on_part: OnPart
    ) -> tuple[HttpAnswer, bool]:
        """Send and read; on another connection as well, as soon as that stands and the first is silent (rule 4)."""
        while True:
            received, was_kept = _Received(on_part), self._stream is not None
            first = asyncio.ensure_future(self._exchange(await self._connected(), message, wait_s, received))
            try:
                await asyncio.wait({first}, timeout=overdue_s)
                if was_kept and not received.has_begun and _was_closed(first):
                    await self._drop()
                    continue
                other = await self._dial_beside(first, received)
                if other is None:
                    return await first
                await self._drop()
                self._stream, overdue_s = other, 2 * overdue_s
            finally:
                first.cancel()
                await asyncio.wait({first})

    async def _dial_beside(self, first: asyncio.Task[tuple[HttpAnswer, bool]], received: _Received) -> _Stream | None:
        """Another connection, while the first is silent; None once that is answered, or has failed."""
        while not first.done() and not received.has_begun:
            dialled: asyncio.Task[_Stream] | None = asyncio.ensure_future(self._dial())
            assert dialled is not None
            try:
                await asyncio.wait({first, dialled}, return_when=asyncio.FIRST_COMPLETED)
                stands = dialled.done() and not _has_failed(dialled)
                grace_s = 2 * _round_trip_s(dialled.result()) if stands else 0.0
                await asyncio.wait({first}, timeout=max(_GRACE_S, grace_s))
                if stands and not first.done() and not received.has_begun:
                    found, dialled = dialled.result(), None
                    return found
            finally:
                if dialled is not None:
                    dialled.add_done_callback(_abort)
                    dialled.cancel()
        return None

    async def _exchange(
        self, stream: _Stream, message: bytes, wait_s: float, received: _Received
    ) -> tuple[HttpAnswer, bool]:
        reader, writer = stream
        writer.write(message)
        async with asyncio.timeout(SILENCE_S):
            await writer.drain()
        return await self._read(reader, wait_s, received)

    def _head(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        lines = [f"{method} {self._base}{target} HTTP/1.1", f"Host: {self._name}"]
        if self._authorization:
            lines.append(f"Authorization: {self._authorization}")
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
            headers = {"Content-Type": "application/json", **headers}
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")

    async def _read(self, reader: asyncio.StreamReader, wait_s: float, received: _Received) -> tuple[HttpAnswer, bool]:
        parser = received.parser = httptools.HttpResponseParser(received)
        silence_s, began, first = wait_s + SILENCE_S, time.monotonic(), 0.0
        while not received.is_complete:
            async with asyncio.timeout(silence_s):
                data = await reader.read(_READ_BYTES)
            if not data:
                raise EOFError
            first = first or time.monotonic()
            received.has_begun = True
            silence_s = SILENCE_S
            parser.feed_data(data)
            if received.size > self._answer_bytes_max or received.header_size > _HEADERS_MAX:
                raise EOFError(f"its answer has more than {self._answer_bytes_max} bytes")
        waited_ms, took_ms = round((first - began) * 1000), round((time.monotonic() - first) * 1000)
        answer = HttpAnswer(parser.get_status_code(), received.headers, b"".join(received.parts), waited_ms, took_ms)
        return answer, received.is_kept

    async def _drop(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream[1].transport.abort()

    async def close(self) -> None:
        await self._drop()


class _Received:
    """What httptools calls with the parts of an answer."""

    def __init__(self, on_part: OnPart) -> None:
        self._on_part = on_part
        self._length = -1
        self.headers: dict[str, str] = {}
        self.parts: list[bytes] = []
        self.size = self.header_size = 0
        self.is_complete = self.has_begun = self.is_kept = False
        self.parser: httptools.HttpResponseParser | None = None

    def on_header(self, name: bytes, value: bytes) -> None:
        self.header_size += len(name) + len(value)
        with suppress(UnicodeDecodeError):
            self.headers[name.decode("ascii").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        # Asked after the message, the parser has forgotten its length, and takes every answer for one that ends with
        # its connection.
        parser = self.parser
        self.is_kept = parser is not None and bool(parser.should_keep_alive())
        length = self.headers.get("content-length", "")
        self._length = (
            int(length) if parser is not None and parser.get_status_code() == _OK and length.isdecimal() else -1
        )

    def on_body(self, body: bytes) -> None:
        self.parts.append(body)
        self.size += len(body)
        if self._length >= 0:
            self._on_part(self.parts, self.size, self._length)

    def on_message_complete(self) -> None:
        self.is_complete = True


def _was_closed(exchanged: asyncio.Task[tuple[HttpAnswer, bool]]) -> bool:
    return exchanged.done() and isinstance(exchanged.exception(), EOFError | ConnectionError)


def _has_failed(dialled: asyncio.Task[_Stream]) -> bool:
    return dialled.cancelled() or dialled.exception() is not None


def _round_trip_s(stream: _Stream) -> float:
    """How long a packet takes there and back, by the handshake; 0 where the system does not say."""
    with suppress(OSError, AttributeError, struct.error):
        info = stream[1].get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ROUND_TRIP.size)
        return float(_ROUND_TRIP.unpack(info)[0]) / 1_000_000
    return 0.0


def _abort(dialled: asyncio.Task[_Stream]) -> None:
    """Close a connection that came about after it was wanted."""
    if not _has_failed(dialled):
        dialled.result()[1].transport.abort()


def _reason(fault: BaseException) -> str:
    if isinstance(fault, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(fault, EOFError):
        return str(fault) or "it closed the connection"
    if isinstance(fault, httptools.HttpParserError):
        return "its answer is not HTTP"
    return getattr(fault, "strerror", None) or str(fault) or "the connection broke"

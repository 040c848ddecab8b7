"""A small HTTP client on one connection that is kept: for pipes between brokers, and for the registry.

Rule 1: it times out by silence, not by duration: an answer may take minutes on a slow link, as long as bytes arrive.
Rule 2: an answer larger than allowed ends the connection before it is held in memory.
Rule 3: one request at a time; a connection that met a fault, or whose request was cancelled, is closed.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

import httptools
from msgspec import Struct

from qanat.connection.faults import UnreachableError

SILENCE_S = 10.0
"""How long a server may be silent beyond the wait that it was allowed."""
_READ_BYTES = 256 * 1024
_HEADERS_MAX = 64 * 1024


class HttpAnswer(Struct, frozen=True):
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    took_ms: int
    """From its first byte to its last."""


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
        self._stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._busy = asyncio.Lock()

    async def request(
        self,
        method: str,
        target: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        wait_s: float = 0.0,
    ) -> HttpAnswer:
        """The answer to a request that the server may park for `wait_s`; raises `UnreachableError` for every fault."""
        async with self._busy:
            is_done = False
            try:
                reader, writer = await self._connected()
                writer.write(self._head(method, target, body, headers or {}) + (body or b""))
                async with asyncio.timeout(SILENCE_S):
                    await writer.drain()
                answer, is_kept = await self._read(reader, wait_s)
                is_done = is_kept
                return answer
            except (OSError, EOFError, TimeoutError, httptools.HttpParserError) as fault:
                raise UnreachableError(f"{self._name}: {_reason(fault)}") from None
            finally:
                if not is_done:
                    await self._drop()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._stream is None:
            async with asyncio.timeout(SILENCE_S):
                context = ssl.create_default_context() if self._is_secure else None
                self._stream = await asyncio.open_connection(self._host, self._port, ssl=context, limit=_READ_BYTES * 4)
        return self._stream

    def _head(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        lines = [f"{method} {self._base}{target} HTTP/1.1", f"Host: {self._name}"]
        if self._authorization:
            lines.append(f"Authorization: {self._authorization}")
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")

    async def _read(self, reader: asyncio.StreamReader, wait_s: float) -> tuple[HttpAnswer, bool]:
        received = _Received()
        parser = httptools.HttpResponseParser(received)
        silence_s, first = wait_s + SILENCE_S, 0.0
        while not received.is_complete:
            async with asyncio.timeout(silence_s):
                data = await reader.read(_READ_BYTES)
            if not data:
                raise EOFError
            first = first or time.monotonic()
            silence_s = SILENCE_S
            parser.feed_data(data)
            if received.size > self._answer_bytes_max or received.header_size > _HEADERS_MAX:
                raise EOFError(f"its answer has more than {self._answer_bytes_max} bytes")
        took_ms = round((time.monotonic() - first) * 1000)
        answer = HttpAnswer(parser.get_status_code(), received.headers, b"".join(received.parts), took_ms)
        return answer, bool(parser.should_keep_alive())

    async def _drop(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream[1].transport.abort()

    async def close(self) -> None:
        await self._drop()


class _Received:
    """What httptools calls with the parts of an answer."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.parts: list[bytes] = []
        self.size = self.header_size = 0
        self.is_complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.header_size += len(name) + len(value)
        with suppress(UnicodeDecodeError):
            self.headers[name.decode("ascii").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self.parts.append(body)
        self.size += len(body)

    def on_message_complete(self) -> None:
        self.is_complete = True


def _reason(fault: BaseException) -> str:
    if isinstance(fault, TimeoutError) and not fault.args:
        return "it is silent"
    if isinstance(fault, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(fault, EOFError):
        return str(fault) or "it closed the connection"
    if isinstance(fault, httptools.HttpParserError):
        return "its answer is not HTTP"
    return getattr(fault, "strerror", None) or str(fault) or "the connection broke"

"""A small HTTP server of a worker: /health says 200 or 503 with the reasons, /metrics is Prometheus' text."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from qanat.telemetry.exposition import CONTENT_TYPE

if TYPE_CHECKING:
    from qanat.client.app.ports import DeclaredApp

_REQUEST_S = 5.0
_REQUEST_BYTES_MAX = 16 * 1024


class HealthServer:
    """Serves one app. `async with`."""

    def __init__(self, app: DeclaredApp, port: int, host: str = "0.0.0.0") -> None:
        self._app = app
        self._host = host
        self.port = port
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self._host, self.port, limit=_REQUEST_BYTES_MAX)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self.answer(head))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            """A probe that sends no request gets no answer."""
        finally:
            writer.close()

    def answer(self, head: bytes) -> bytes:
        """The whole response to a request's head."""
        words = head.split(b"\r\n", 1)[0].split(b" ")
        path = words[1].split(b"?")[0] if len(words) == 3 and words[0] in (b"GET", b"HEAD") else b""
        if path == b"/health":
            health = self._app.health()
            return _response("200 OK" if health else "503 Service Unavailable", health.reason + "\n")
        if path == b"/metrics":
            return _response("200 OK", self._app.metrics(), CONTENT_TYPE)
        return _response("404 Not Found", "GET /health or /metrics\n")


def _response(status: str, text: str, kind: str = "text/plain; charset=utf-8") -> bytes:
    body = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body

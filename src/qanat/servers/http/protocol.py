"""HTTP/1.1 on a socket: uvicorn's protocol with the limits of this server.

A client is limited before any request is handled: size of the headers, time between two pieces of a request, number of
connections. Refusals of HTTP itself are problem documents as well.

Rule: no timer per request. Once a second one look at all connections finds the slow ones.
"""

from __future__ import annotations

import asyncio
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.wsproto_impl import WSProtocol

from qanat.servers.http.problems import CONTENT_TYPE, Problem
from qanat.servers.http.reply import Headers

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import ServerState
    from wsproto.events import Request

    from qanat.servers.http.settings import HttpSettings

TICK_S = 1.0
BODY_BYTES = "body_bytes"
"""How much of its body has come, in the scope of a request."""
_URL_MAX = 8 * 1024


class RefusedRequestError(Exception):
    """Raised inside the parser: the rest of the request is ignored."""


class HttpProtocol(HttpToolsProtocol):
    """One client's connection."""

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], settings: HttpSettings
    ) -> None:
        super().__init__(config=config, server_state=server_state, app_state=app_state)
        self._settings = settings
        self._head_bytes = 0
        self._refusal: Problem | None = None
        self._heard_at = self.loop.time()
        self._is_receiving = True
        """Whether the server waits for the client: for its first request, or for the rest of one."""
        self._head_since: float | None = self._heard_at
        """Since when the headers of a request, or the first request, are awaited; None where none are."""

    # Called by the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._settings.http_max_connections:
            self._refuse(
                Problem(
                    503,
                    f"{self._settings.http_max_connections} connections are open (http.max.connections); try later",
                    headers=((b"retry-after", b"1"),),
                )
            )

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._heard_at = self.loop.time()
        super().data_received(data)

    # Called by the parser

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0
        self._is_receiving = True
        if self._head_since is None:
            self._head_since = self.loop.time()
        scope: Any = self.scope
        scope[BODY_BYTES] = 0
        # Streams check for room, and close connections whose clients do not read.
        scope["flow"] = self.flow
        scope["transport"] = self.transport

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))
        if len(self.url) > _URL_MAX:
            self._refusal = Problem(414, f"the address of a request may have {_URL_MAX} bytes; put the rest in a body")
            raise RefusedRequestError

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count(len(name) + len(value))

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._head_since = None
        # A complete answer is one write (`write_whole`).
        self.scope["cycle"] = self.cycle  # type: ignore[typeddict-unknown-key]

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        scope: Any = self.scope
        scope[BODY_BYTES] += len(body)

    def on_message_complete(self) -> None:
        self._is_receiving = False
        super().on_message_complete()

    def _count(self, size: int) -> None:
        self._head_bytes += size
        limit = self._settings.http_header_max_bytes
        if self._head_bytes > limit:
            self._refusal = Problem(
                431, f"the headers are larger than {limit} bytes (http.header.max.bytes); send fewer or shorter ones"
            )
            raise RefusedRequestError

    # Refusals

    def send_400_response(self, msg: str) -> None:
        refusal, self._refusal = self._refusal, None
        self._refuse(refusal or Problem(400, "this is not HTTP/1.1: the request cannot be read"))

    def check_timeout(self, now: float) -> None:
        """Close a client that is silent in the middle of a request, or never ends the headers of one: it could
        send them byte by byte for ever."""
        if not self._is_receiving or self.flow is None or self.flow.read_paused:
            return
        limit_ms = self._settings.http_read_timeout_ms
        since = self._heard_at if self._head_since is None else self._head_since
        if now - since > limit_ms / 1000 and not self.transport.is_closing():
            self._refuse(Problem(408, f"no more of the request came for {limit_ms} ms (http.read.timeout.ms)"))

    def _refuse(self, problem: Problem) -> None:
        is_answering = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if not is_answering:
            body = problem.encode()
            head = [
                f"HTTP/1.1 {problem.status} {problem.document()['title']}\r\n".encode(),
                b"content-type: " + CONTENT_TYPE + b"\r\n",
                f"content-length: {len(body)}\r\nconnection: close\r\n".encode(),
                *(name + b": " + value + b"\r\n" for name, value in problem.headers),
                b"\r\n",
                body,
            ]
            self.transport.write(b"".join(head))
        self.transport.close()


def write_whole(cycle: RequestResponseCycle, status: int, headers: Headers, body: bytes) -> None:
    """Send a complete answer in one write; ASGI's messages would be two."""
    if cycle.disconnected or cycle.response_started:
        return
    head = [STATUS_LINE[status]]
    for name, value in (*cycle.default_headers, *headers):
        head += (name, b": ", value, b"\r\n")
        if name == b"connection" and value == b"close":
            cycle.keep_alive = False
    head.append(b"content-length: %d\r\n%s\r\n" % (len(body), b"" if cycle.keep_alive else b"connection: close\r\n"))
    if cycle.scope["method"] != "HEAD":
        head.append(body)
    cycle.response_started = cycle.response_complete = True
    cycle.transport.write(b"".join(head))
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()


class WebSocketProtocol(WSProtocol):
    """A connection that was upgraded to a WebSocket."""

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        # The task that handles it starts in the next turn of the loop.
        self.scope["writable"] = self.writable  # type: ignore[typeddict-unknown-key]
        self.scope["transport"] = self.transport  # type: ignore[typeddict-unknown-key]


def http_date() -> bytes:
    return formatdate(usegmt=True).encode()

"""The console of a cluster elsewhere, for the browser of this machine: its files from here, its requests passed on.

A page of this machine asks this address, and this address asks the broker: so the broker needs to allow no other
origin, and the console works with a broker of any network that this machine reaches.

Rule 1: it answers this machine's own pages only: a request to another name, or that another page causes, is refused.
Rule 2: it adds no rights: what the browser sends (a session's cookie, `Authorization`) is all that the broker sees.
"""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from qanat.servers.http.console_files import file_reply
from qanat.servers.http.problems import CONTENT_TYPE, Problem
from qanat.servers.http.reply import Reply

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_PASSED = ("/api/", "/health", "/openapi.json", "/docs", "/metrics")
_FROM_BROWSER = ("accept", "authorization", "content-type", "cookie", "idempotency-key", "last-event-id", "x-api-key")
_TO_BROWSER = ("content-type", "set-cookie", "retry-after", "cache-control", "content-security-policy")
_HOSTS = ("127.0.0.1", "localhost", "[::1]")
_PAGES = (None, "same-origin", "none")
_SECURE = "__Host-"
_SESSION = "qanat-session"
_TIMEOUT_S = 90.0
_PIECE = 64 * 1024


class ConsoleProxy:
    """An ASGI application: the console's files, and the operations of one broker."""

    def __init__(self, target: str, certificates: ssl.SSLContext | None = None) -> None:
        address = urlsplit(target)
        self._is_tls = address.scheme == "https"
        self._host = address.hostname or ""
        self._port = address.port or (443 if self._is_tls else 80)
        self._origin = f"{address.scheme}://{address.netloc}"
        self._netloc = address.netloc
        self._certificates = certificates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            refuse_others(headers)
            path = scope["path"]
            if path in ("/", "/console"):
                await send_reply(send, Reply(307, b"", headers=((b"location", b"/console/"),)))
            elif path.startswith("/console/"):
                name = path.removeprefix("/console/") or "index.html"
                known = headers.get("if-none-match", "").encode("latin-1")
                await send_reply(send, file_reply(name, headers.get("accept-encoding", "").encode("latin-1"), known))
            elif path.startswith(_PASSED):
                await self._pass_on(scope, headers, receive, send)
            else:
                raise Problem(404, f"there is nothing at {path}; the console is at /console/")
        except Problem as problem:
            await send_reply(send, Reply(problem.status, problem.encode(scope["path"]), CONTENT_TYPE))

    async def _pass_on(self, scope: Scope, headers: Mapping[str, str], receive: Receive, send: Send) -> None:
        body = await _body(receive)
        query = scope["query_string"].decode("latin-1")
        path = scope["raw_path"].decode("latin-1").partition("?")[0] + (f"?{query}" if query else "")
        connection = self._connection()
        try:
            try:
                answer = await asyncio.to_thread(self._ask, connection, scope["method"], path, body, headers)
            except (OSError, http.client.HTTPException) as fault:
                raise Problem(502, f"{self._origin} does not answer: {fault}") from None
            found = [(name.lower(), value) for name, value in answer.getheaders() if name.lower() in _TO_BROWSER]
            passed = [(name.encode(), self._for_browser(name, value).encode("latin-1")) for name, value in found]
            await send({"type": "http.response.start", "status": answer.status, "headers": passed})
            gone = asyncio.ensure_future(_wait_until_gone(receive))
            try:
                while not gone.done():
                    reading = asyncio.ensure_future(asyncio.to_thread(answer.read1, _PIECE))
                    await asyncio.wait({reading, gone}, return_when=asyncio.FIRST_COMPLETED)
                    if not reading.done() or not (piece := reading.result()):
                        break
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            except (OSError, http.client.HTTPException):
                pass  # The broker went in the middle of its answer, which ends here as well.
            finally:
                gone.cancel()
            await send({"type": "http.response.body", "body": b""})
        finally:
            if connection.sock is not None:
                connection.sock.close()  # A thread that still reads ends.
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self._is_tls:
            return http.client.HTTPSConnection(self._host, self._port, timeout=_TIMEOUT_S, context=self._certificates)
        return http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT_S)

    def _ask(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        passed = {name: headers[name] for name in _FROM_BROWSER if name in headers}
        if self._is_tls and "cookie" in passed:
            passed["cookie"] = passed["cookie"].replace(_SESSION, _SECURE + _SESSION)
        passed |= {"host": self._netloc, "origin": self._origin, "sec-fetch-site": "same-origin"}
        connection.request(method, path, body or None, passed)
        return connection.getresponse()

    def _for_browser(self, name: str, value: str) -> str:
        """A header for the browser; the cookie of a broker with TLS would not stay on plain loopback."""
        return value.replace(_SECURE, "").replace("; Secure", "") if name == "set-cookie" else value


def refuse_others(headers: Mapping[str, str]) -> None:
    """Refuse requests to another name, and those that a page of another address causes."""
    host = headers.get("host", "")
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    if name not in _HOSTS:
        raise Problem(421, "this console is for this machine: open it as localhost")
    origin = headers.get("origin")
    is_elsewhere = origin is not None and origin != f"http://{host}"
    if is_elsewhere or headers.get("sec-fetch-site") not in _PAGES:
        raise Problem(403, "a page of another address asks: this console answers its own only")


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_reply(send: Send, reply: Reply) -> None:
    """Send a whole answer."""
    headers = [(b"content-type", reply.media_type), (b"content-length", b"%d" % len(reply.body)), *reply.headers]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})

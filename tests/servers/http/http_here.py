"""An HTTP server of a broker in this process, whose requests take the fast path where they can, or none of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

import pytest

from qanat.api.interceptor import authorize
from qanat.servers.http.context import HttpContext
from qanat.servers.http.exchange import Scope
from qanat.servers.http.listener import HttpListener
from qanat.servers.http.records.produce_fast_path import may_take_fast_path
from qanat.servers.http.settings import HttpSettings
from qanat.servers.kafka.dispatch import Dispatcher
from qanat.servers.listener_security import ListenerSecurity
from qanat.servers.metrics.text import MetricsText
from qanat.testing import BrokerHere

AGENT = "test/1"
HOST = "localhost"
_WAIT_S = 30.0
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_BETWEEN_S = 0.002


class HttpAnswer(NamedTuple):
    """What came back; without the date."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpHere:
    """One listener, with an authorizer where `security` has one. `async with HttpHere(broker)`."""

    def __init__(self, broker: BrokerHere, security: ListenerSecurity | None = None, **settings: Any) -> None:
        node = broker.node
        self.dispatcher = Dispatcher(node.broker)
        self.dispatcher.interceptor = None if security is None else authorize
        metrics = MetricsText(node.broker, node.listener)
        self.listener = HttpListener(
            node.broker, self.dispatcher, HttpSettings(**{"http_port": 0, **settings}), metrics, security
        )

    @property
    def context(self) -> HttpContext:
        return self.listener.context

    async def __aenter__(self) -> Self:
        await self.listener.start()
        self.context.hosts.require(HOST.encode())  # The fast path takes names that were asked for before.
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.listener.close()

    async def send(self, data: bytes, rest: bytes = b"") -> HttpAnswer:
        """Send a request, in one write or two, on a connection of its own that the server closes behind its answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port)
        try:
            writer.write(data)
            if rest:
                await asyncio.sleep(_BETWEEN_S)
                writer.write(rest)
            async with asyncio.timeout(_WAIT_S):
                head, _, body = (await reader.read()).removeprefix(_CONTINUE).partition(b"\r\n\r\n")
        finally:
            writer.transport.abort()
        status, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        headers.pop("date", None)
        return HttpAnswer(int(status.split()[1]), headers, body)

    async def request(
        self, method: str, target: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> HttpAnswer:
        return await self.send(request_bytes(method, target, body, headers))


def request_bytes(method: str, target: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
    """A request of JSON, unless its headers say otherwise."""
    lines = {
        "host": HOST,
        "user-agent": AGENT,
        "connection": "close",
        "content-type": "application/json",
        "content-length": str(len(body)),
        **(headers or {}),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


def fast_paths(monkeypatch: pytest.MonkeyPatch, *, without: HttpHere | None = None) -> list[bool]:
    """Which requests could take the fast path, as they come; those of the server `without` may not."""
    taken: list[bool] = []

    def may_take(context: HttpContext, scope: Scope) -> bool:
        is_fast = (without is None or context is not without.context) and may_take_fast_path(context, scope)
        taken.append(is_fast)
        return is_fast

    monkeypatch.setattr("qanat.servers.http.application.may_take_fast_path", may_take)
    return taken

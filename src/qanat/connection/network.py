"""The network: how listeners are opened, and how other brokers are reached. The port, and TCP, which it is by default.

A network is found by its name among the entry points `qanat.networks` (`app.node.plugins`), and the setting
`network.type` chooses one; docs/extending/networks.md shows how to add another. It carries Kafka's listeners, push,
and the links between brokers. TLS and SASL are above it; HTTP and metrics always travel over TCP.

Rule 1: a fault of the network is an `OSError`; one that nobody listens is a `ConnectionRefusedError`, by which brokers
        know that another one is gone.
Rule 2: protocols are asyncio's, buffered ones included. A transport has `socket` and `peername` among its extra
        information: TLS takes the socket over, and limits are by the peer's host.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol, TypeVar

Made = TypeVar("Made", bound=asyncio.BaseProtocol)
BACKLOG = 1024
"""Connections that the operating system accepts before we do."""


class Listening(Protocol):
    """An address that is listened on."""

    @property
    def port(self) -> int:
        """The port, also where the operating system was to choose it."""

    async def start_serving(self) -> None:
        """Accept connections; before, they wait."""

    def close(self) -> None:
        """Accept no more. Connections go on."""

    async def wait_closed(self) -> None: ...


class Network(Protocol):
    """Opens listeners, and connections to other brokers."""

    async def listen(
        self, make: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, is_shared: bool = False
    ) -> Listening:
        """Claim an address; each connection gets a protocol of its own. With `is_shared`, other processes may listen on
        it as well."""
        ...

    async def connect(
        self, make: Callable[[], Made], host: str, port: int, tls: ssl.SSLContext | None = None, *, close_s: float = 0.0
    ) -> tuple[asyncio.BaseTransport, Made]:
        """Connect to a broker; `close_s` is how long the end of TLS may take."""
        ...


class TcpListening:
    """A TCP port."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server

    @property
    def port(self) -> int:
        return int(self._server.sockets[0].getsockname()[1])

    async def start_serving(self) -> None:
        await self._server.start_serving()

    def close(self) -> None:
        """What was accepted in this turn of the loop becomes a connection first: asyncio would forget it, open."""
        loop = asyncio.get_running_loop()
        for listening in self._server.sockets:
            loop.remove_reader(listening)
        loop.call_soon(self._server.close)

    async def wait_closed(self) -> None:
        await asyncio.sleep(0)  # `close` takes effect in the next turn of the loop.
        await self._server.wait_closed()


class TcpNetwork:
    """TCP, by the running event loop."""

    async def listen(
        self, make: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, is_shared: bool = False
    ) -> Listening:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            make, host, port, backlog=BACKLOG, start_serving=False, reuse_port=is_shared or None
        )
        return TcpListening(server)

    async def connect(
        self, make: Callable[[], Made], host: str, port: int, tls: ssl.SSLContext | None = None, *, close_s: float = 0.0
    ) -> tuple[asyncio.BaseTransport, Made]:
        shutdown_s = close_s if tls is not None and close_s else None
        loop = asyncio.get_running_loop()
        return await loop.create_connection(make, host, port, ssl=tls, ssl_shutdown_timeout=shutdown_s)


TCP: Network = TcpNetwork()

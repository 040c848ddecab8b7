"""The HTTP listener: accepts, times and closes connections on one address."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from qanat.model.errors import AddressInUseError
from qanat.security.authentication import ANONYMOUS, Principal
from qanat.servers.http.application import Application
from qanat.servers.http.caller import PRINCIPAL
from qanat.servers.http.context import HttpContext
from qanat.servers.http.operation_table import OPERATIONS
from qanat.servers.http.operations import Routes
from qanat.servers.http.protocol import TICK_S, HttpProtocol, WebSocketProtocol, http_date
from qanat.servers.http.settings import USUAL_PORT, HttpSettings

if TYPE_CHECKING:
    from qanat.api.interceptor import Intercepted
    from qanat.broker.broker import Broker
    from qanat.servers.listener_security import ListenerSecurity
    from qanat.servers.metrics.text import MetricsText
    from qanat.servers.tls.handshake import TlsHandshakes
    from qanat.servers.tls.listener_tls import ListenerTls

_GRACE_S = 2.0
"""How long open requests may take when the listener closes."""


class HttpListener:
    """Serves one address: `start` and `close`."""

    def __init__(
        self,
        broker: Broker,
        intercepted: Intercepted,
        settings: HttpSettings,
        metrics: MetricsText,
        security: ListenerSecurity | None = None,
        tls: ListenerTls | None = None,
    ) -> None:
        self._settings = settings
        self.context = HttpContext(broker, intercepted, settings, metrics, security)
        self._state = ServerState()
        self._config = Config(
            Application(self.context, Routes(OPERATIONS)),
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=round(settings.http_idle_timeout_ms / 1000),
            ws=WebSocketProtocol,
            ws_max_size=settings.http_request_max_bytes,
            ws_per_message_deflate=False,
        )
        self._tls = tls
        self._handshakes: TlsHandshakes | None = None
        self._server: asyncio.Server | None = None
        self._ticking: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        assert self._server is not None, "started"
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def address(self) -> str:
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{self._settings.http_host_name}:{self.port}"

    async def start(self) -> None:
        """Start to answer; raises `AddressInUseError` where the address is taken."""
        self._config.load()
        host = self._settings.http_host_name
        port = USUAL_PORT if self._settings.http_port is None else self._settings.http_port
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(self._factory(), host, port, backlog=1024)
        except OSError as error:
            raise AddressInUseError(
                f"cannot serve HTTP on {host}:{port}: {error.strerror or error}; "
                "stop what is using it, or choose another http.port"
            ) from error
        self.context.start()
        self._tick()

    def _factory(self) -> Callable[[], asyncio.BaseProtocol]:
        if self._tls is None:
            return self._protocol
        from qanat.servers.tls.handshake import TlsHandshakes

        self._handshakes = TlsHandshakes(self._tls, self._protocol)
        return self._handshakes

    def _protocol(self, principal: Principal = ANONYMOUS) -> HttpProtocol:
        """A connection of a client; its certificate's principal is in the state of its requests."""
        state = {} if principal is ANONYMOUS else {PRINCIPAL: principal}
        return HttpProtocol(self._config, self._state, state, self._settings)

    def _tick(self) -> None:
        """Once a second: the date of the answers, and slow clients."""
        loop = asyncio.get_running_loop()
        self._state.default_headers = [(b"date", http_date())]
        now = loop.time()
        connections: set[Any] = self._state.connections
        for connection in list(connections):
            if isinstance(connection, HttpProtocol):
                connection.check_timeout(now)
        self.context.counters.connections = len(connections)
        self.context.counters.streams = self.context.streams.count
        self._ticking = loop.call_later(TICK_S, self._tick)

    async def close(self) -> None:
        """Stop accepting, let requests end for a moment, then close the connections."""
        self.context.is_stopping = True
        if self._ticking is not None:
            self._ticking.cancel()
        if self._server is not None:
            self._server.close()
        if self._handshakes is not None:
            await self._handshakes.close()
        self.context.streams.close()
        connections: set[Any] = self._state.connections
        for connection in list(connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=_GRACE_S)
        for task in list(self._state.tasks):
            task.cancel()
        await asyncio.gather(*self._state.tasks, return_exceptions=True)
        for connection in list(connections):
            if connection.transport is not None:
                connection.transport.abort()
        if self._server is not None:
            await self._server.wait_closed()
        self.context.close()

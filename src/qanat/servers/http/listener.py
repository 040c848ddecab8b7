"""The listening socket of the HTTP door: accepts, looks after and closes connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from qanat.model.errors import AddressInUseError
from qanat.servers.http.application import Application
from qanat.servers.http.context import HttpContext
from qanat.servers.http.operation_table import OPERATIONS
from qanat.servers.http.operations import Routes
from qanat.servers.http.protocol import LOOK_S, HttpProtocol, WebSocketProtocol, http_date
from qanat.servers.http.settings import USUAL_PORT, HttpSettings

if TYPE_CHECKING:
    from qanat.broker.broker import Broker
    from qanat.servers.kafka.listener import KafkaListener
    from qanat.servers.kafka.listener_security import ListenerSecurity

_GRACE_S = 2.0
"""How long requests may take to their end when the door is closed."""


class HttpListener:
    """Serves one address: `start` and `close`."""

    def __init__(
        self,
        broker: Broker,
        kafka: KafkaListener,
        settings: HttpSettings,
        gate: ListenerSecurity | None = None,
    ) -> None:
        self._settings = settings
        self.door = HttpContext(broker, kafka, settings, gate)
        self._state = ServerState()
        self._config = Config(
            Application(self.door, Routes(OPERATIONS)),
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
        self._server: asyncio.Server | None = None
        self._looking: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        assert self._server is not None, "started"
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def address(self) -> str:
        return f"http://{self._settings.http_host_name}:{self.port}"

    async def start(self) -> None:
        """Begin to answer; raises `AddressInUseError` where the address is not to be had."""
        self._config.load()
        host = self._settings.http_host_name
        port = USUAL_PORT if self._settings.http_port is None else self._settings.http_port
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(self._protocol, host, port, backlog=1024)
        except OSError as error:
            raise AddressInUseError(
                f"cannot serve HTTP on {host}:{port}: {error.strerror or error}; "
                "stop what is using it, or choose another http.port"
            ) from error
        self.door.start()
        self._look()

    def _protocol(self) -> HttpProtocol:
        return HttpProtocol(self._config, self._state, {}, self._settings)

    def _look(self) -> None:
        """Once a second: the time in the answers, and clients that dawdle."""
        loop = asyncio.get_running_loop()
        self._state.default_headers = [(b"date", http_date())]
        now = loop.time()
        connections: set[Any] = self._state.connections
        for connection in list(connections):
            if isinstance(connection, HttpProtocol):
                connection.look(now)
        self.door.counters.connections = len(connections)
        self.door.counters.streams = self.door.streams.count
        self._looking = loop.call_later(LOOK_S, self._look)

    async def close(self) -> None:
        """Stop accepting, let requests end for a moment, then close what is open."""
        self.door.is_stopping = True
        if self._looking is not None:
            self._looking.cancel()
        if self._server is not None:
            self._server.close()
        self.door.streams.close()
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
        self.door.close()

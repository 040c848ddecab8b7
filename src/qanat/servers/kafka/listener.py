"""The Kafka listener: accepts, counts and closes connections on one address."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from qanat.broker.broker import Broker
from qanat.model.errors import AddressInUseError
from qanat.model.ordered_set import OrderedSet
from qanat.servers.kafka.connection import KafkaConnection, lazy_buffer
from qanat.servers.kafka.connection_limits import ConnectionLimits
from qanat.servers.kafka.dispatch import Dispatcher
from qanat.telemetry.events import RateLimitedEvent

if TYPE_CHECKING:
    from qanat.servers.listener_security import ListenerSecurity

OnFault = Callable[[KafkaConnection, BaseException], None]


class KafkaListener:
    """Serves one address: `bind` claims it, `serve` starts to answer, `close` ends both."""

    def __init__(
        self,
        broker: Broker,
        on_fault: OnFault,
        security: ListenerSecurity | None = None,
        *,
        inter_broker_port: int | None = None,
    ) -> None:
        """With `inter_broker_port`, it is the inter-broker listener."""
        settings = broker.settings
        self._wanted_port = settings.port if inter_broker_port is None else inter_broker_port
        self._is_inter_broker = inter_broker_port is not None
        self._broker = broker
        self.dispatcher = Dispatcher(broker)
        self.counters = self.dispatcher.counters
        self._security = security
        if security is not None and security.authorizer is not None:
            self.dispatcher.authorize_by(security)
        self._on_fault = on_fault
        self._log_refused = RateLimitedEvent("connection refused: too many")
        self._limits = ConnectionLimits(
            settings.socket_request_max_bytes,
            settings.max_unanswered_requests,
            settings.queued_max_request_bytes,
            settings.max_unanswered_bytes,
            settings.max_unsent_bytes,
            lazy_buffer,
        )
        self._connections: OrderedSet[KafkaConnection] = OrderedSet()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        assert self._server is not None, "started"
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def inflight_bytes(self) -> int:
        """Bytes of unanswered requests, incomplete ones included."""
        return self._limits.inflight_bytes

    @property
    def paused_count(self) -> int:
        """Connections whose reading is paused because all together hold too much."""
        return len(self._limits.starved)

    async def bind(self) -> None:
        """Claim the address, so that its port is known; no client is answered yet."""
        settings = self._broker.settings
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                self._accept, settings.host_name, self._wanted_port, backlog=1024, start_serving=False
            )
        except OSError as error:
            raise AddressInUseError(
                f"cannot listen on {settings.host_name}:{self._wanted_port}: {error.strerror or error}; "
                "stop what is using it, or choose another port"
            ) from error

    async def serve(self) -> None:
        assert self._server is not None, "bound"
        await self._server.start_serving()

    def _accept(self) -> KafkaConnection:
        connection = KafkaConnection(self.dispatcher.handle, self._limits, self._forget, self._cut_off)
        connection.is_inter_broker = self._is_inter_broker
        self._connections.add(connection)
        self.counters.accepted += 1
        if self._security is not None:
            connection.conversation = self._security.begin_authentication()
            connection.on_refused = self._count_refusal
        if len(self._connections) > self._broker.settings.max_connections:
            self.counters.refused += 1
            self._log_refused(limit=self._broker.settings.max_connections, setting="max.connections")
            connection.is_refused = True
        return connection

    def _count_refusal(self) -> None:
        self.counters.not_authenticated += 1

    def _cut_off(self, connection: KafkaConnection, fault: BaseException) -> None:
        self.counters.cut_off += 1
        self._on_fault(connection, fault)

    def _forget(self, connection: KafkaConnection) -> None:
        self._connections.discard(connection)

    async def close(self) -> None:
        """Stop accepting, then close the open connections."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.close()
        if self._server is not None:
            await self._server.wait_closed()
        self.dispatcher.close()

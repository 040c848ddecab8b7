"""The Kafka listener: accepts, counts and closes connections on one endpoint or several.

All endpoints share the dispatcher, the counters and the limits: what one client may take, it may take once. Who
clients are and what they may do is their endpoint's own (`KafkaConnection.security`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from qanat.api.interceptor import authorize
from qanat.broker.broker import Broker
from qanat.connection.network import TCP, Listening, Network
from qanat.model.errors import AddressInUseError
from qanat.model.ordered_set import OrderedSet
from qanat.security.authentication import ANONYMOUS, Principal
from qanat.servers.guarded_accept import GuardedAccept
from qanat.servers.kafka.connection import KafkaConnection, KafkaProtocol, lazy_buffer
from qanat.servers.kafka.connection_limits import ConnectionLimits
from qanat.servers.kafka.dispatch import Dispatcher
from qanat.servers.kafka.endpoint import KafkaEndpoint
from qanat.servers.kafka.first_byte import FirstByte, PushAcceptor
from qanat.servers.kafka.unauthenticated_clients import UnauthenticatedClients
from qanat.telemetry.events import RateLimitedEvent

if TYPE_CHECKING:
    from qanat.servers.listener_security import ListenerSecurity
    from qanat.servers.tls.handshake import TlsHandshakes

OnFault = Callable[[KafkaConnection, BaseException], None]


class KafkaClient(KafkaProtocol):
    """A connection with what its client said of itself; here, because the connection itself is compiled."""

    client_software = ("", "")
    """Name and version, as ApiVersions said."""


class KafkaListener:
    """Serves its endpoints: `bind` claims them, `serve` starts to answer, `close` ends both."""

    def __init__(
        self, broker: Broker, on_fault: OnFault, endpoints: Sequence[KafkaEndpoint] = (), network: Network = TCP
    ) -> None:
        """Without endpoints, it serves the broker's own address to every client."""
        self._network = network
        settings = broker.settings
        self._endpoints = endpoints or (KafkaEndpoint("PLAINTEXT", settings.host_name, settings.port),)
        self._broker = broker
        self.dispatcher = Dispatcher(broker)
        self.counters = self.dispatcher.counters
        if any(endpoint.is_authorized for endpoint in self._endpoints):
            self.dispatcher.interceptor = authorize
        self._on_fault = on_fault
        self._log_refused = RateLimitedEvent("connection refused: too many")
        self._log_not_authenticated = RateLimitedEvent("authentication failed")
        self._log_expired = RateLimitedEvent("session expired: client is disconnected", level="info")
        self._limits = ConnectionLimits(
            settings.socket_request_max_bytes,
            settings.max_unanswered_requests,
            settings.queued_max_request_bytes,
            settings.max_unanswered_bytes,
            settings.max_unsent_bytes,
            lazy_buffer,
        )
        self._connections: OrderedSet[KafkaConnection] = OrderedSet()
        self._unauthenticated = UnauthenticatedClients(broker.current_settings.security, broker.counters)
        self._handshakes: list[TlsHandshakes] = []
        self._servers: list[Listening] = []
        self._is_closed = False
        self.push: PushAcceptor | None = None
        """Serves connections that begin with a push frame; None where such connections are refused."""
        self.ports: dict[str, int] = {}
        """The port of every endpoint, by its name."""

    @property
    def port(self) -> int:
        """The port of the first endpoint."""
        return self.ports[self._endpoints[0].name]

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def unauthenticated_count(self) -> int:
        """Connections that have not authenticated yet."""
        return len(self._unauthenticated)

    @property
    def inflight_bytes(self) -> int:
        """Bytes of unanswered requests, incomplete ones included."""
        return self._limits.inflight_bytes

    @property
    def paused_count(self) -> int:
        """Connections whose reading is paused because all together hold too much."""
        return len(self._limits.starved)

    def paused_clients(self) -> list[str]:
        """The client ids of connections whose reading is paused; an empty one where a client has not named itself."""
        return [one.client_id or "" for one in self._connections if one in self._limits.starved]

    async def bind(self) -> None:
        """Claim the addresses, so that their ports are known; no client is answered yet."""
        for endpoint in self._endpoints:
            accept = self._factory(endpoint)
            server = await self._bind(accept, endpoint.host, endpoint.port)
            self.ports[endpoint.name] = server.port
            if endpoint.bootstrap_port is not None:
                await self._bind(accept, endpoint.host, endpoint.bootstrap_port, is_shared=True)

    def _factory(self, endpoint: KafkaEndpoint) -> Callable[[], asyncio.BaseProtocol]:
        accept = partial(self._accept, endpoint)
        guard = None if endpoint.security is None else endpoint.security.login_guard
        if endpoint.tls is None:
            return accept if guard is None else GuardedAccept(guard, accept)
        from qanat.servers.tls.handshake import TlsHandshakes

        handshakes = TlsHandshakes(endpoint.tls, accept, guard)
        self._handshakes.append(handshakes)
        return handshakes

    async def _bind(
        self, accept: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, is_shared: bool = False
    ) -> Listening:
        try:
            server = await self._network.listen(accept, host, port, is_shared=is_shared)
        except OSError as error:
            raise AddressInUseError(
                f"cannot listen on {host}:{port}: {error.strerror or error}; "
                "stop what is using it, or choose another port"
            ) from error
        self._servers.append(server)
        return server

    async def serve(self) -> None:
        assert self._servers, "bound"
        for server in self._servers:
            await server.start_serving()

    def _accept(self, endpoint: KafkaEndpoint, principal: Principal = ANONYMOUS) -> asyncio.BaseProtocol:
        connection = KafkaClient(self.dispatcher.handle, self._limits, self._forget, self._cut_off)
        connection.listener_name, connection.listener_protocol = endpoint.name, endpoint.protocol
        connection.is_inter_broker = connection.is_over_inter_broker = endpoint.is_inter_broker
        connection.principal = principal
        connection.security = endpoint.security if endpoint.is_authorized else None
        self._connections.add(connection)
        self.counters.accepted += 1
        if endpoint.security is not None:
            connection.conversation = endpoint.security.begin_authentication()
            connection.on_refused = self._refuse
            connection.on_authenticated = partial(self._authenticated, endpoint.security)
            connection.on_renewed, connection.on_expired = self._renew, self._expire
            endpoint.security.note_principal(connection)
            connection.login_guard = endpoint.security.login_guard
        if self._is_closed:
            connection.is_refused = True
        push = self.push
        pushed_count = 0 if push is None else push.connection_count
        if len(self._connections) + pushed_count > self._broker.settings.max_connections:
            self.counters.refused += 1
            self._log_refused(limit=self._broker.settings.max_connections, setting="max.connections")
            connection.is_refused = True
        elif connection.conversation is not None:
            self._unauthenticated.add(connection)
        return connection if push is None else FirstByte(connection, lambda: push.accept(endpoint, principal))

    def _authenticated(self, security: ListenerSecurity, connection: KafkaConnection) -> None:
        self._unauthenticated.discard(connection)
        connection.limit_frames(self._limits.max_request_bytes)
        security.note_principal(connection)

    def _refuse(self, connection: KafkaConnection, reason: str) -> None:
        self.counters.not_authenticated += 1
        self._log_not_authenticated(peer=connection.peer, reason=reason)

    def _renew(self, connection: KafkaConnection) -> None:
        self.counters.renewed += 1

    def _expire(self, connection: KafkaConnection) -> None:
        self.counters.expired += 1
        self._log_expired(peer=connection.peer, principal=str(connection.principal), client_id=connection.client_id)

    def _cut_off(self, connection: KafkaConnection, fault: BaseException) -> None:
        self.counters.cut_off += 1
        self._on_fault(connection, fault)

    def _forget(self, connection: KafkaConnection) -> None:
        self._connections.discard(connection)
        self._unauthenticated.discard(connection)

    async def close(self) -> None:
        """Stop accepting, then close the open connections, and those that were just accepted."""
        self._is_closed = True
        for server in self._servers:
            server.close()
        for handshakes in self._handshakes:
            await handshakes.close()
        self._unauthenticated.close()
        if self.push is not None:
            await self.push.close()
        for connection in list(self._connections):
            connection.close()
        for server in self._servers:
            await server.wait_closed()
        self.dispatcher.close()

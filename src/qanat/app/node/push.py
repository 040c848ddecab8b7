"""The push server of a node, imported with its first connection: a broker without push clients does not load it.

It serves connections of the Kafka listener that begin with a push frame, and those of `push.port` where that is set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from qanat.model.errors import AddressInUseError
from qanat.security.authentication import ANONYMOUS
from qanat.servers.guarded_accept import GuardedAccept

if TYPE_CHECKING:
    from qanat.api.interceptor import Intercepted
    from qanat.broker.broker import Broker
    from qanat.connection.network import Listening, Network
    from qanat.security.authentication import Principal
    from qanat.servers.kafka.endpoint import KafkaEndpoint
    from qanat.servers.push.connection import PushConnection
    from qanat.servers.push.server import PushServer
    from qanat.servers.tls.handshake import TlsHandshakes


class LazyPush:
    """Makes the server when it is needed."""

    def __init__(self, broker: Broker, intercepted: Intercepted, network: Network) -> None:
        self._network = network
        self._broker = broker
        self._intercepted = intercepted
        self.server: PushServer | None = None
        self._own: Listening | None = None
        self._handshakes: TlsHandshakes | None = None

    @property
    def own_port(self) -> int | None:
        """The port for push alone; None where there is none."""
        return None if self._own is None else self._own.port

    async def serve_own(self, endpoint: KafkaEndpoint, port: int) -> None:
        """Serve push on a port of its own, with the security of this endpoint."""
        accept: Callable[[], asyncio.BaseProtocol] = partial(self.accept, endpoint, ANONYMOUS)
        guard = None if endpoint.security is None else endpoint.security.login_guard
        if endpoint.tls is not None:
            from qanat.servers.tls.handshake import TlsHandshakes

            accept = self._handshakes = TlsHandshakes(endpoint.tls, partial(self.accept, endpoint), guard)
        elif guard is not None:
            accept = GuardedAccept(guard, accept)
        try:
            self._own = await self._network.listen(accept, endpoint.host, port)
            await self._own.start_serving()
        except OSError as fault:
            raise AddressInUseError(
                f"push.port: cannot listen on {endpoint.host}:{port}: {fault.strerror or fault}; choose another port"
            ) from fault

    @property
    def connection_count(self) -> int:
        return 0 if self.server is None else self.server.connection_count

    def accept(self, endpoint: KafkaEndpoint, principal: Principal) -> PushConnection:
        if self.server is None:
            from qanat.servers.push.server import PushServer

            self.server = PushServer(self._broker, self._intercepted)
        return self.server.accept(endpoint, principal)

    async def close(self) -> None:
        if self._own is not None:
            self._own.close()
        if self._handshakes is not None:
            await self._handshakes.close()
        if self.server is not None:
            await self.server.close()

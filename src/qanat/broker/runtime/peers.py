"""Peers: requests to the other brokers of the cluster, over connections that stay open.

There is one connection per broker, to its inter-broker listener, opened on first use and again when it breaks; its
security is what that listener's registration says. A caller that gets `UnreachableError` or `OutOfTimeError` does not
know whether the request arrived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from qanat.cluster import values
from qanat.cluster.image import MetadataImage
from qanat.connection.faults import OutOfTimeError, UnreachableError
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.connection.deadline import Deadline
    from qanat.connection.link import Link
    from qanat.connection.network import Network
    from qanat.connection.security import Security


class Peers:
    """Links to the brokers that were called before."""

    def __init__(self, node_id: int, image: MetadataImage) -> None:
        self._node_id = node_id
        self._image = image
        self._links: dict[int, Link] = {}
        self._opening: dict[int, asyncio.Lock] = {}
        self.security: Callable[[str], Security] | None = None
        """What we show to a broker, by the security protocol of its listener; None where we have nothing to show."""

        self.network: Network | None = None
        """How other brokers are reached; None is over TCP."""

    def address_of(self, node_id: int) -> tuple[str, int]:
        """Where another broker listens for brokers; raises `UnreachableError` where that is not known."""
        listener = self._listener_of(node_id)
        return listener.host, listener.port

    def _listener_of(self, node_id: int) -> values.Listener:
        registration = self._image.brokers.get(node_id)
        listener = None if registration is None else registration.inter_broker
        if listener is None:
            raise UnreachableError(f"broker {node_id} is not registered")
        return listener

    async def is_refused(self, node_id: int) -> bool:
        """Whether nobody listens where a broker should: its process has ended. Raises `OSError`, `QanatError`."""
        from qanat.connection.network import TCP

        host, port = self.address_of(node_id)
        try:
            transport, _ = await (self.network or TCP).connect(asyncio.Protocol, host, port)
        except ConnectionRefusedError:
            return True
        transport.close()
        return False

    async def open(self, node_id: int, client_id: str, deadline: Deadline) -> Link:
        """A new connection to a broker, which the caller closes."""
        # With all of TLS and SASL: a single broker starts faster without.
        from qanat.connection.link import Link
        from qanat.connection.network import TCP
        from qanat.connection.security import UNPROTECTED

        listener = self._listener_of(node_id)
        security = UNPROTECTED if self.security is None else self.security(listener.security_protocol)
        if security.protocol != listener.security_protocol:
            raise UnreachableError(
                f"broker {node_id} asks for {listener.security_protocol}, and this broker has no credentials or "
                "certificates for it: inter.broker.credentials.file, ssl.truststore.location"
            )
        return await Link.open(listener.host, listener.port, client_id, deadline, security, self.network or TCP)

    async def call(
        self, node_id: int, api_key: ApiKey, request: Any, timeout_s: float, *, at_most: int | None = None
    ) -> Any:
        """The response of a broker."""
        from qanat.connection.deadline import Deadline

        deadline = Deadline.after(timeout_s)
        link = await self._link(node_id, deadline)
        try:
            return await link.call(api_key, request, deadline, at_most=at_most)
        except OutOfTimeError:
            # The connection may be dead without either side knowing: a host lost power, a firewall forgot it. The next
            # request takes a new one.
            await link.close()
            raise

    async def _link(self, node_id: int, deadline: Deadline) -> Link:
        host, port = self.address_of(node_id)
        async with self._opening.setdefault(node_id, asyncio.Lock()):
            link = self._links.get(node_id)
            if link is not None and (not link.is_open or link.address != f"{host}:{port}"):
                await link.close()
                link = None
            if link is None:
                link = self._links[node_id] = await self.open(node_id, f"qanat-broker-{self._node_id}", deadline)
            return link

    async def close(self) -> None:
        while self._links:  # A request that is under way may add one.
            _, link = self._links.popitem()
            await link.close()

"""Questions to the other brokers of the cluster, over connections that stay open.

One connection per broker, to its inter-broker listener, made when it is first needed and made again when
it breaks. Whoever asks is told by `UnreachableError` or `OutOfTimeError` that nobody answered, and does not know then
whether the question arrived.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from qanat.connection.faults import OutOfTimeError
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.broker.broker import Broker
    from qanat.connection.deadline import Deadline
    from qanat.connection.link import Link


class Peers:
    """Links to the brokers that somebody has asked something of."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._links: dict[int, Link] = {}
        self._opening: dict[int, asyncio.Lock] = {}

    async def call(
        self, node_id: int, api_key: ApiKey, request: Any, timeout_s: float, *, at_most: int | None = None
    ) -> Any:
        """The answer of a broker."""
        from qanat.connection.deadline import Deadline

        deadline = Deadline.after(timeout_s)
        link = await self._link(node_id, deadline)
        try:
            return await link.call(api_key, request, deadline, at_most=at_most)
        except OutOfTimeError:
            # The connection may be dead without either side having been told: a host that lost power, a firewall that
            # forgot. The next question goes another way.
            await link.close()
            raise

    async def _link(self, node_id: int, deadline: Deadline) -> Link:
        from qanat.connection.link import Link  # With all of TLS and SASL, which a lone broker starts faster without.

        host, port = self._broker.address_of(node_id)
        async with self._opening.setdefault(node_id, asyncio.Lock()):
            link = self._links.get(node_id)
            if link is not None and (not link.is_open or link.address != f"{host}:{port}"):
                await link.close()
                link = None
            if link is None:
                name = f"qanat-broker-{self._broker.node_id}"
                link = self._links[node_id] = await Link.open(host, port, name, deadline)
            return link

    async def close(self) -> None:
        for link in self._links.values():
            await link.close()

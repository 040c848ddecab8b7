"""Connections to the other brokers, pooled for HTTP; those of `broker.runtime.peers` are separate.

A broker answers the requests of a connection in order, so a parked fetch would hold the requests behind it. Therefore a
connection carries one request at a time: a request takes an idle one, or opens one, and returns it. There are never
more than requests and streams of the HTTP server, which are limited.

Rule: a connection whose answer was not awaited is closed: the next answer on it would be that one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qanat.connection.deadline import Deadline
from qanat.servers.http.caller import CLIENT_ID

if TYPE_CHECKING:
    from qanat.broker.broker import Broker
    from qanat.connection.link import Link
    from qanat.wire.kafka.registry import ApiKey

IDLE_MAX = 32
"""Most idle connections to each broker."""


class BrokerLinks:
    """The idle connections by broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._idle: dict[int, list[Link]] = {}
        self._is_closed = False

    async def call(
        self, node_id: int, api_key: ApiKey, request: Any, timeout_s: float, *, at_most: int | None = None
    ) -> Any:
        """The answer of a broker; raises `UnreachableError` or `OutOfTimeError` where there was none."""
        deadline = Deadline.after(timeout_s)
        link = await self._take(node_id, deadline)
        try:
            answer = await link.call(api_key, request, deadline, at_most=at_most)
        except BaseException:
            link.abort()
            raise
        self._put_back(node_id, link)
        return answer

    async def _take(self, node_id: int, deadline: Deadline) -> Link:
        host, port = self._broker.peers.address_of(node_id)
        idle = self._idle.setdefault(node_id, [])
        while idle:
            link = idle.pop()
            if link.is_open and link.address == f"{host}:{port}":
                return link
            link.abort()
        return await self._broker.peers.open(node_id, CLIENT_ID, deadline)

    def _put_back(self, node_id: int, link: Link) -> None:
        idle = self._idle.setdefault(node_id, [])
        if self._is_closed or len(idle) >= IDLE_MAX or not link.is_open:
            link.abort()
        else:
            idle.append(link)

    def close(self) -> None:
        self._is_closed = True
        for idle in self._idle.values():
            while idle:
                idle.pop().abort()

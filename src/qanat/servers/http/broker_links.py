"""Connections to the other brokers, kept for the next request: this door's own, apart from those of `broker.runtime.peers`.

A broker answers the requests of a connection in their order. A reader that waits for records would hold up everybody
behind it, so a connection carries one request at a time: whoever asks takes one that is idle, or opens one, and puts it
back. There are never more of them than requests and streams of this door, whose number has limits.

Rule: a connection whose answer nobody waited for is closed: what comes over it next would be that answer.
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
"""Idle connections that are kept for each broker."""


class Links:
    """Idle connections by broker."""

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
        from qanat.connection.link import Link  # With all of TLS and SASL, which a lone broker starts faster without.

        host, port = self._broker.peers.address_of(node_id)
        idle = self._idle.setdefault(node_id, [])
        while idle:
            link = idle.pop()
            if link.is_open and link.address == f"{host}:{port}":
                return link
            link.abort()
        return await Link.open(host, port, CLIENT_ID, deadline)

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

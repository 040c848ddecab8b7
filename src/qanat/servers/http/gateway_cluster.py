"""The cluster as a caller of HTTP sees it: `connection.Cluster` over the gateway, without sockets to this broker.

What is built on a `Cluster` (reading topics, transactions, redrive) works for HTTP as for any client. Each request is
authorized under the caller's name and handled here, or by the broker that leads or coordinates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.link import Link
from qanat.servers.http.caller import CLIENT_ID
from qanat.wire.kafka.messages.fetch import FetchResponse
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.servers.http.caller import HttpCaller
    from qanat.servers.http.kafka_gateway import KafkaGateway


class GatewayLink(Link):
    """Requests of a caller to one broker."""

    def __init__(self, gateway: KafkaGateway, caller: HttpCaller, node_id: int) -> None:
        self._gateway = gateway
        self._caller = caller
        self._node_id = node_id
        self.offered = {}
        self.features = {}

    @property
    def address(self) -> str:
        return f"broker {self._node_id}"

    @property
    def is_open(self) -> bool:
        return True

    async def close(self) -> None:
        """Do nothing: the gateway stays."""

    def abort(self) -> None:
        """Do nothing: the gateway stays."""

    async def call(self, api_key: ApiKey, request: Any, deadline: Deadline, *, at_most: int | None = None) -> Any:
        work = self._gateway.call(self._caller, api_key, request, self._node_id, at_most=at_most)
        response = await deadline.bound(work, f"an answer of {self.address}")
        if isinstance(response, FetchResponse):
            _join_records(response)
        return response


class GatewayCluster(Cluster):
    """The cluster of this broker, for one caller."""

    def __init__(self, gateway: KafkaGateway, caller: HttpCaller) -> None:
        super().__init__([], CLIENT_ID, gateway.timeout_s)
        self._gateway = gateway
        self._caller = caller
        self._was_reached = True

    async def any_link(self, deadline: Deadline) -> Link:
        return await self.node_link(self._gateway.broker.node_id, deadline)

    async def node_link(self, node_id: int, deadline: Deadline) -> Link:
        return GatewayLink(self._gateway, self._caller, node_id)


def _join_records(response: FetchResponse) -> None:
    """Records that were read here are parts of files; readers expect one piece."""
    for topic in response.responses:
        for row in topic.partitions:
            if isinstance(row.records, list):
                row.records = memoryview(b"".join(row.records))

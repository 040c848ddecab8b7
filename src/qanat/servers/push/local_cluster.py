"""The cluster as a push client sees it: `connection.Cluster` without sockets to this broker.

Membership, offsets and queues of the client library work on it as they do over a socket. Each request is authorized
under the client's name here, and handled here or by the broker that leads or coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from qanat.api.api_table import SERVED, Handler, ServedApi
from qanat.api.request_context import RequestContext
from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.link import Link
from qanat.wire.kafka.headers import RequestHeader
from qanat.wire.kafka.messages.fetch import FetchResponse
from qanat.wire.kafka.messages.share_fetch import ShareFetchResponse
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.api.caller import Caller
    from qanat.api.interceptor import Intercepted
    from qanat.broker.broker import Broker

CLIENT_ID = "qanat-push"
TIMEOUT_S = 15.0
_BY_NAME_AT_MOST = {ApiKey.PRODUCE: 12, ApiKey.FETCH: 12, ApiKey.OFFSET_COMMIT: 9, ApiKey.OFFSET_FETCH: 9}
"""Later versions name topics by id only."""

_OFFERED: dict[int, tuple[int, int]] = {
    served.key: (served.first_version, served.last_version) for served in SERVED.values()
}


@dataclass(frozen=True)
class _Forwarded(ServedApi):
    """An API that another broker serves; this broker authorizes."""

    forward: Handler | None = None

    @property
    def handle(self) -> Handler:
        assert self.forward is not None
        return self.forward


class LocalLink(Link):
    """Requests of a client to one broker."""

    def __init__(self, cluster: LocalCluster, node_id: int) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._remote: Link | None = None
        self.offered = _OFFERED
        self.features = {}

    @property
    def address(self) -> str:
        return f"broker {self._node_id}"

    @property
    def is_open(self) -> bool:
        return True

    async def close(self) -> None:
        if self._remote is not None:
            self._remote.abort()

    def abort(self) -> None:
        if self._remote is not None:
            self._remote.abort()

    async def call(self, api_key: ApiKey, request: Any, deadline: Deadline, *, at_most: int | None = None) -> Any:
        served = SERVED[api_key]
        limit = _BY_NAME_AT_MOST.get(api_key, served.last_version) if at_most is None else at_most
        version = min(served.last_version, limit)
        if self._node_id != self._cluster.broker.node_id:

            async def forward(authorized: Any, _: RequestContext) -> Any:
                return await (await self._peer(deadline)).call(api_key, authorized, deadline, at_most=limit)

            served = _Forwarded(served.key, served.first_version, served.last_version, served.module, forward=forward)
        work = self._cluster.handle(served, request, version)
        response = await deadline.bound(work, f"an answer of {self.address}")
        if isinstance(response, FetchResponse | ShareFetchResponse):
            _join_records(response)
        return response

    async def _peer(self, deadline: Deadline) -> Link:
        if self._remote is None or not self._remote.is_open:
            self._remote = await self._cluster.broker.peers.open(self._node_id, CLIENT_ID, deadline)
        return self._remote


class LocalCluster(Cluster):
    """The cluster of this broker, for one client."""

    def __init__(self, broker: Broker, intercepted: Intercepted, caller: Caller) -> None:
        super().__init__([], CLIENT_ID, TIMEOUT_S)
        self.broker = broker
        self._intercepted = intercepted
        self._caller = caller
        self._was_reached = True
        self._opened: list[LocalLink] = []
        self._by_node: dict[int, LocalLink] = {}

    def topic_id(self, name: str) -> str:
        """The id of a topic, as this broker knows it now; empty where there is none of that name."""
        topic = self.broker.metadata.image.topics.get(name)
        return "" if topic is None else topic.topic_id

    async def any_link(self, deadline: Deadline) -> Link:
        return await self.node_link(self.broker.node_id, deadline)

    async def node_link(self, node_id: int, deadline: Deadline) -> Link:
        found = self._by_node.get(node_id)
        if found is None:
            found = self._by_node[node_id] = LocalLink(self, node_id)
        return found

    def link_alone(self, node_id: int) -> LocalLink:
        """A link with a connection of its own: for requests that wait, behind which no other may stand."""
        made = LocalLink(self, node_id)
        self._opened.append(made)
        return made

    def forget(self, link: LocalLink) -> None:
        """A link of `link_alone` is done."""
        self._opened.remove(link)

    async def handle(self, served: ServedApi, request: Any, version: int) -> Any:
        """Pass a request through the interceptor, as a Kafka connection does, and await its response."""
        context = RequestContext(self.broker, self._caller, RequestHeader(served.key, version, 0, CLIENT_ID, 0))
        interceptor = self._intercepted.interceptor
        outcome = served.handle(request, context) if interceptor is None else interceptor(served, request, context)
        while not isinstance(outcome, Struct) and outcome is not None:
            outcome = await outcome
        return outcome

    def close_links(self) -> None:
        for link in (*self._by_node.values(), *self._opened):
            link.abort()


def _join_records(response: FetchResponse | ShareFetchResponse) -> None:
    """Records that were read here are parts of files; readers expect one piece."""
    for topic in response.responses:
        for row in topic.partitions:
            if isinstance(row.records, list):
                row.records = memoryview(b"".join(row.records))

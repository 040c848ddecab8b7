"""A cluster from its own metadata: brokers, and every partition with leader, replicas and ISR."""

from __future__ import annotations

from dataclasses import dataclass, field

from qanat import __version__
from qanat.cluster.format_levels import FEATURE
from qanat.connection.cluster import Cluster
from qanat.connection.faults import check
from qanat.model.errors import QanatError
from qanat.wire.kafka.layouts import ZERO_UUID
from qanat.wire.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from qanat.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from qanat.wire.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from qanat.wire.kafka.registry import ApiKey

_BROKER = 4


@dataclass(slots=True)
class BrokerView:
    """A broker that is alive."""

    node_id: int
    host: str
    port: int
    rack: str | None
    is_controller: bool
    pid: int | None = None
    """Its process id, where it reports one."""
    leads: int = 0
    holds: int = 0
    """Replicas of partitions, led or not."""
    in_sync: int = 0

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition."""

    topic: str
    number: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    topic_id: bytes = ZERO_UUID


@dataclass(frozen=True, slots=True)
class FormatLevel:
    """The format level of metadata, and the newest one that the queried broker knows."""

    now: int
    newest: int


@dataclass(slots=True)
class ClusterView:
    """Brokers and partitions, as one broker reports them."""

    cluster_id: str
    controller: int
    brokers: list[BrokerView]
    partitions: list[PartitionView] = field(repr=False)
    level: FormatLevel | None = None
    """The cluster's format level, where it was queried and exists."""

    @property
    def under_replicated(self) -> int:
        return sum(len(one.in_sync) < len(one.replicas) for one in self.partitions)

    @property
    def offline(self) -> int:
        return sum(one.leader < 0 for one in self.partitions)

    @property
    def missing_brokers(self) -> list[int]:
        """Brokers that have replicas and are not alive."""
        held = {node_id for one in self.partitions for node_id in one.replicas}
        return sorted(held - {one.node_id for one in self.brokers})

    @property
    def racks(self) -> dict[int, str | None]:
        return {one.node_id: one.rack for one in self.brokers}

    @property
    def topics(self) -> int:
        return len({one.topic for one in self.partitions})


async def view_of(cluster: Cluster, *, with_processes: bool = False) -> ClusterView:
    """Query one broker about the cluster; `with_processes` also queries each broker about itself."""
    deadline = cluster.deadline()
    answer = await cluster.metadata(None, deadline)
    partitions = [
        PartitionView(
            topic.name or "",
            one.partition_index,
            one.leader_id,
            tuple(one.replica_nodes),
            tuple(one.isr_nodes),
            bytes(topic.topic_id),
        )
        for topic in answer.topics
        for one in topic.partitions
    ]
    brokers = {
        one.node_id: BrokerView(one.node_id, one.host, one.port, one.rack, one.node_id == answer.controller_id)
        for one in sorted(answer.brokers, key=lambda one: one.node_id)
    }
    for partition in partitions:
        for node_id, view in brokers.items():
            view.leads += partition.leader == node_id
            view.holds += node_id in partition.replicas
            view.in_sync += node_id in partition.in_sync
    whole = ClusterView(answer.cluster_id or "", answer.controller_id, list(brokers.values()), partitions)
    if with_processes:
        whole.level = await level_of(cluster)
        for view in brokers.values():
            view.pid = await _pid(cluster, view.node_id)
    return whole


async def level_of(cluster: Cluster) -> FormatLevel | None:
    """The cluster's format level; None where it has none, as clusters of other brokers."""
    request = ApiVersionsRequest(client_software_name="qanat", client_software_version=__version__)
    answer: ApiVersionsResponse = await cluster.call(ApiKey.API_VERSIONS, request, is_question=True)
    now = {one.name: one.max_version_level for one in answer.finalized_features}
    known = {one.name: one.max_version for one in answer.supported_features}
    return FormatLevel(now[FEATURE], known.get(FEATURE, now[FEATURE])) if FEATURE in now else None


async def _pid(cluster: Cluster, node_id: int) -> int | None:
    """A broker's process id; None where it is not a Qanat broker or does not answer."""
    deadline = cluster.deadline()
    resource = DescribeConfigsResource(_BROKER, str(node_id), ["process.id"])
    try:
        link = await cluster.node_link(node_id, deadline)
        answer: DescribeConfigsResponse = await link.call(
            ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest([resource]), deadline
        )
    except QanatError:
        return None
    values = [one.value for result in answer.results for one in result.configs if one.name == "process.id"]
    return int(values[0]) if values and values[0] else None


async def moves_of(cluster: Cluster) -> dict[tuple[str, int], tuple[tuple[int, ...], tuple[int, ...]]]:
    """Partitions that are being moved, with the replicas added and removed."""
    request = ListPartitionReassignmentsRequest(30_000, None)
    answer: ListPartitionReassignmentsResponse = await cluster.call_controller(
        ApiKey.LIST_PARTITION_REASSIGNMENTS, request, is_question=True
    )
    check("cannot list reassignments", answer.error_code, answer.error_message)
    return {
        (topic.name, one.partition_index): (tuple(one.adding_replicas), tuple(one.removing_replicas))
        for topic in answer.topics
        for one in topic.partitions
    }

"""Damaged or offline replicas and waiting elections, as brokers report them (GetReplicaLogInfo).

Every broker reports its own replicas; the controller also reports what elections wait for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from qanat.app.cluster.cluster_view import ClusterView, PartitionView
from qanat.cluster.election_waits import format_ranges
from qanat.connection.cluster import Cluster
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.wire.kafka.messages.get_replica_log_info import (
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    PartitionLogInfo,
    TopicPartitions,
    WaitingElection,
)
from qanat.wire.kafka.registry import ApiKey

Ranges = tuple[tuple[int, int], ...]
_REPORTED_CODES = (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)


@dataclass(frozen=True, slots=True)
class FaultyReplica:
    """A damaged or offline replica."""

    partition: PartitionView
    node_id: int
    ranges: Ranges
    """Damaged offsets, each from its first to its next; none where the log is offline."""
    reason: str

    @property
    def state(self) -> str:
        return "damaged" if self.ranges else "offline"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A partition whose election waits."""

    partition: PartitionView
    unproven: tuple[int, ...]
    gone: tuple[int, ...]
    left_ms: int | None
    """How long it waits at most; None where it waits without a limit."""

    @property
    def is_for_operator(self) -> bool:
        return not self.unproven and not self.gone

    @property
    def summary(self) -> str:
        if self.is_for_operator:
            return "waits for an operator"
        reasons = [f"proofs of {_brokers(self.unproven)}"] if self.unproven else []
        reasons += [f"{_brokers(self.gone)} to come back"] if self.gone else []
        most = "" if self.left_ms is None else f", at most {self.left_ms / 1000:.0f} s"
        return f"waits for {' and '.join(reasons)}{most}"


@dataclass(slots=True)
class Faults:
    """Faulty replicas and waiting elections of a cluster."""

    replicas: list[FaultyReplica] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    silent: list[int] = field(default_factory=list)
    """Brokers that did not answer."""

    def outlook(self, replica: FaultyReplica) -> str:
        """What happens to a replica next."""
        leader = replica.partition.leader
        wait = next((one for one in self.waiting if one.partition is replica.partition), None)
        if wait is not None:
            return wait.summary
        if leader >= 0 and leader != replica.node_id:
            return f"repaired from broker {leader}"
        if leader >= 0 and len(replica.partition.in_sync) > 1:
            return "hands over to another replica"
        return "serves the rest; waits for an operator" if leader >= 0 and replica.ranges else "waits for an operator"


async def faults_of(cluster: Cluster, view: ClusterView) -> Faults:
    """Query every broker that is alive."""
    found = Faults()
    known = {(one.topic_id, one.number): one for one in view.partitions}
    for broker in view.brokers:
        answer = await _log_info(
            cluster, broker.node_id, GetReplicaLogInfoRequest(broker.node_id, [], faulty_only=True)
        )
        if answer is None:
            found.silent.append(broker.node_id)
            continue
        for (topic_id, number), row in _rows(answer).items():
            if (partition := known.get((topic_id, number))) is not None:
                found.replicas.append(_faulty(partition, broker.node_id, row))
        for one in answer.waiting:
            if (partition := known.get((one.topic_id, one.partition))) is not None:
                found.waiting.append(_waiting(partition, one))
    found.replicas.sort(key=lambda one: (one.partition.topic, one.partition.number, one.node_id))
    found.waiting.sort(key=lambda one: (one.partition.topic, one.partition.number))
    return found


async def copies_of(
    cluster: Cluster, nodes: Sequence[int], partitions: Sequence[PartitionView]
) -> dict[tuple[str, int], dict[int, PartitionLogInfo]]:
    """The replicas of these partitions on these brokers, as far as the brokers answer."""
    copies: dict[tuple[str, int], dict[int, PartitionLogInfo]] = {(one.topic, one.number): {} for one in partitions}
    names = {one.topic_id: one.topic for one in partitions}
    for node_id in nodes:
        wanted: dict[bytes, list[int]] = {}
        for one in partitions:
            if node_id in one.replicas:
                wanted.setdefault(one.topic_id, []).append(one.number)
        rows = [TopicPartitions(topic_id, numbers) for topic_id, numbers in wanted.items()]
        answer = await _log_info(cluster, node_id, GetReplicaLogInfoRequest(node_id, rows)) if rows else None
        for (topic_id, number), row in ({} if answer is None else _rows(answer)).items():
            copies[names[topic_id], number][node_id] = row
    return copies


def ranges_of(row: PartitionLogInfo) -> Ranges:
    return tuple((one.first_offset, one.next_offset) for one in row.damage)


def damage_text(ranges: Ranges) -> str | None:
    """Damaged offsets as text."""
    return format_ranges(ranges) if ranges else None


async def _log_info(
    cluster: Cluster, node_id: int, request: GetReplicaLogInfoRequest
) -> GetReplicaLogInfoResponse | None:
    """A broker's answer; None where it is not a Qanat broker or does not answer."""
    deadline = cluster.deadline()
    try:
        link = await cluster.node_link(node_id, deadline)
        answer: GetReplicaLogInfoResponse = await link.call(ApiKey.GET_REPLICA_LOG_INFO, request, deadline)
    except QanatError:
        return None
    return answer


def _rows(answer: GetReplicaLogInfoResponse) -> Mapping[tuple[bytes, int], PartitionLogInfo]:
    return {
        (bytes(topic.topic_id), row.partition): row
        for topic in answer.topic_partition_log_info_list
        for row in topic.partition_log_info
        if row.error_code in _REPORTED_CODES
    }


def _faulty(partition: PartitionView, node_id: int, row: PartitionLogInfo) -> FaultyReplica:
    return FaultyReplica(partition, node_id, ranges_of(row), row.error_message or "")


def _waiting(partition: PartitionView, one: WaitingElection) -> Waiting:
    left_ms = None if one.left_ms < 0 else one.left_ms
    return Waiting(partition, tuple(one.unproven), tuple(one.gone), left_ms)


def _brokers(node_ids: Sequence[int]) -> str:
    return f"broker{'s' if len(node_ids) > 1 else ''} {', '.join(map(str, node_ids))}"

"""Partitions that do not serve as they should, as far as this node sees; looked for once for all who ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.cluster import values
from qanat.cluster.election_waits import replica_problems
from qanat.cluster.image import MetadataImage
from qanat.cluster.proofs import Evidence
from qanat.model.error_codes import ErrorCode
from qanat.servers.http.kept_answers import KeptAnswer

if TYPE_CHECKING:
    from qanat.broker.broker import Broker


class DegradedPartition(msgspec.Struct):
    """A partition that does not serve as it should."""

    topic: str
    partition: int
    leader: int
    problem: str


Found = tuple[int, list[DegradedPartition]]
"""How many partitions there are, and those with problems."""


class PartitionProblems:
    """The problems of a cluster's partitions."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._kept: KeptAnswer[Found] = KeptAnswer()

    async def found(self) -> Found:
        return await self._kept.get(self._find)

    async def _find(self) -> Found:
        image = self._broker.metadata.image
        found: list[DegradedPartition] = []
        partitions = 0
        async for topic in CooperativeYield().over(list(image.topics.values())):
            if topic.name not in image.topics:
                continue
            partitions += len(topic.partitions)
            for number in range(len(topic.partitions)):
                problem = _problem(self._broker, topic.name, number)
                if problem is not None:
                    found.append(DegradedPartition(topic.name, number, image.state(topic, number).leader, problem))
        return partitions, found


def _problem(broker: Broker, name: str, number: int) -> str | None:
    """The problem of a partition."""
    image = broker.metadata.image
    topic = image.topics[name]
    state = image.state(topic, number)
    if state.leader < 0 or state.leader not in image.brokers:
        return "; ".join(["it has no leader", *_faults(image, topic, number)])
    if state.leader == broker.node_id:
        found = broker.lookup.led(name, number)
        if isinstance(found, ErrorCode):
            return found.name
        if found.lacks_replicas:
            return f"{found.in_sync_replicas} replicas are in sync, {found.needed_in_sync} are needed"
    faults = _faults(image, topic, number)
    if len(state.in_sync) < len(state.replicas):
        faults.insert(0, f"{len(state.in_sync)} of {len(state.replicas)} replicas are in sync")
    return "; ".join(faults) or None


def _faults(image: MetadataImage, topic: values.Topic, number: int) -> list[str]:
    """The damaged or offline replicas, as their brokers report."""
    if not image.replica_faults:
        return []
    evidence = Evidence(faults=image.replica_faults.get((topic.topic_id, number), {}))
    return replica_problems(image.state(topic, number), evidence)

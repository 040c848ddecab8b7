"""Transaction markers: writes them into partitions, on this broker or on the leader (WriteTxnMarkers).

They are requested by the coordinator of a transaction, in this process or in another, or by an operator who ends a
transaction that has no coordinator any more. In `__consumer_offsets` a marker also settles the offsets that wait for
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from qanat.broker.replicas.partition import EndMarker, Partition
from qanat.broker.replicas.partition_lookup import PartitionLookup
from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.broker.runtime.peers import Peers
from qanat.cluster.image import MetadataImage
from qanat.cluster.values import NO_LEADER
from qanat.connection.faults import error_code
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.model.topic_names import OFFSETS_TOPIC
from qanat.wire.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from qanat.wire.kafka.registry import ApiKey

Begun = asyncio.Future[None] | ErrorCode | None
"""The future of a marker's being on disk, None where it is on disk, or the error that prevents it from being
written."""
EndInGroups = Callable[[int, EndMarker], Awaitable[Begun]]
"""Settles the offsets that a transaction holds in a partition of `__consumer_offsets`."""
_CALL_S = 10.0
"""How long another broker may take to write markers."""


class MarkerWriter:
    """Writes markers into partitions, here or by a request to the leader."""

    def __init__(
        self,
        node_id: int,
        image: MetadataImage,
        lookup: PartitionLookup,
        peers: Peers,
        runtime: LogRuntime,
        end_in_groups: EndInGroups,
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._lookup = lookup
        self._peers = peers
        self._runtime = runtime
        self._end_in_groups = end_in_groups

    async def write(self, marker: EndMarker, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        """Write to each partition, and return when every marker is safe, or cannot be written here."""
        waiting: dict[TopicPartition, Begun] = {}
        yielder = CooperativeYield()
        async for at in yielder.over(partitions):
            waiting[at] = await self._begin(marker, at)
        return {at: await _outcome(begun) async for at, begun in yielder.over(waiting.items())}

    async def write_everywhere(
        self, marker: EndMarker, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """The same wherever the partitions are led now; the caller retries those whose leader could not be reached."""
        by_leader: dict[int, list[TopicPartition]] = {}
        async for at in CooperativeYield().over(partitions):
            by_leader.setdefault(self._leader_of(at), []).append(at)
        writes = [
            self.write(marker, some) if node_id in (self._node_id, NO_LEADER) else self._send(node_id, marker, some)
            for node_id, some in by_leader.items()
        ]
        outcomes: dict[TopicPartition, ErrorCode] = {}
        for outcome in await asyncio.gather(*writes):
            outcomes |= outcome
        return outcomes

    def _leader_of(self, at: TopicPartition) -> int:
        """Its leader by our image, which may not have the topic yet, or not all of its partitions."""
        image = self._image
        topic = image.topics.get(at.topic)
        if topic is None or at.partition >= len(topic.partitions):
            return NO_LEADER
        return image.state(topic, at.partition).leader

    async def _send(
        self, node_id: int, marker: EndMarker, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        topics: dict[str, WritableTxnMarkerTopic] = {}
        for at in partitions:
            topic = topics.setdefault(at.topic, WritableTxnMarkerTopic(at.topic, []))
            topic.partition_indexes.append(at.partition)
        wanted = WritableTxnMarker(
            marker.producer_id,
            marker.producer_epoch,
            marker.is_commit,
            list(topics.values()),
            marker.coordinator_epoch,
            marker.transaction_version,
        )
        unanswered = dict.fromkeys(partitions, ErrorCode.REQUEST_TIMED_OUT)
        try:
            request = WriteTxnMarkersRequest([wanted])
            answer = await self._peers.call(node_id, ApiKey.WRITE_TXN_MARKERS, request, _CALL_S)
        except QanatError:
            return unanswered
        return unanswered | {
            TopicPartition(topic.name, row.partition_index): error_code(row.error_code)
            for one in answer.markers
            for topic in one.topics
            for row in topic.partitions
        }

    async def _begin(self, marker: EndMarker, at: TopicPartition) -> Begun:
        partition = self._lookup.led(at.topic, at.partition)
        if not isinstance(partition, Partition):
            return partition
        try:
            if at.topic == OFFSETS_TOPIC:
                return await self._end_in_groups(at.partition, marker)
            async with self._runtime.queued(partition.log):
                return partition.append_marker(marker)
        except QanatError as fault:
            return fault.code


async def _outcome(begun: Begun) -> ErrorCode:
    if begun is None or isinstance(begun, ErrorCode):
        return begun or ErrorCode.NONE
    try:
        await begun
    except QanatError as fault:
        return fault.code
    return ErrorCode.NONE

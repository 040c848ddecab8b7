"""Markers on their way into partitions: what WriteTxnMarkers does, whoever asks for it.

The coordinator of a transaction is one asker, in this process or in another;
an operator who ends a transaction that nobody coordinates any more is another.
In `__consumer_offsets` a marker also settles the offsets that wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from qanat.broker.replicas.partition import EndMarker, Partition
from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.cluster.topic_names import OFFSETS_TOPIC
from qanat.cluster.values import NO_LEADER
from qanat.connection.faults import error_code
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.broker.broker import Broker


_CALL_S = 10.0
"""How long another broker may take to write markers."""


class MarkerWriter:
    """Writes markers into partitions, here or by asking whoever leads them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def write(self, marker: EndMarker, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        """Write to each, and return when every marker is safe, or cannot be written here."""
        waiting: dict[TopicPartition, asyncio.Future[None] | ErrorCode | None] = {}
        yielder = CooperativeYield()
        async for at in yielder.over(partitions):
            waiting[at] = await self._begin(marker, at)
        return {at: await _outcome(begun) async for at, begun in yielder.over(waiting.items())}

    async def write_everywhere(
        self, marker: EndMarker, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """The same wherever the partitions are led now; what could not be reached is to be tried again."""
        by_leader: dict[int, list[TopicPartition]] = {}
        async for at in CooperativeYield().over(partitions):
            by_leader.setdefault(self._leader_of(at), []).append(at)
        asked = [
            self.write(marker, some)
            if node_id in (self._broker.node_id, NO_LEADER)
            else self._send(node_id, marker, some)
            for node_id, some in by_leader.items()
        ]
        outcomes: dict[TopicPartition, ErrorCode] = {}
        for outcome in await asyncio.gather(*asked):
            outcomes |= outcome
        return outcomes

    def _leader_of(self, at: TopicPartition) -> int:
        """Who leads it by our image, which may not have the topic yet, or not all of its partitions."""
        image = self._broker.metadata.image
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
            answer = await self._broker.peers.call(node_id, ApiKey.WRITE_TXN_MARKERS, request, _CALL_S)
        except QanatError:
            return unanswered
        return unanswered | {
            TopicPartition(topic.name, row.partition_index): error_code(row.error_code)
            for one in answer.markers
            for topic in one.topics
            for row in topic.partitions
        }

    async def _begin(self, marker: EndMarker, at: TopicPartition) -> asyncio.Future[None] | ErrorCode | None:
        partition = self._broker.partition(at.topic, at.partition)
        if not isinstance(partition, Partition):
            return partition
        try:
            if at.topic == OFFSETS_TOPIC:
                return await self._broker.groups.end_transaction(at.partition, marker)
            async with self._broker.runtime.queued(partition.log):
                return partition.append_marker(marker)
        except QanatError as fault:
            return fault.code


async def _outcome(begun: asyncio.Future[None] | ErrorCode | None) -> ErrorCode:
    if begun is None or isinstance(begun, ErrorCode):
        return begun or ErrorCode.NONE
    try:
        await begun
    except QanatError as fault:
        return fault.code
    return ErrorCode.NONE

"""Markers on their way into partitions: what WriteTxnMarkers does, whoever asks for it.

The coordinator of a transaction is one asker, in this process or in another;
an operator who ends a transaction that nobody coordinates any more is another.
In `__consumer_offsets` a marker also settles the offsets that wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from qanat.broker.partition import EndMarker, Partition
from qanat.cluster.topic_names import OFFSETS_TOPIC
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition

if TYPE_CHECKING:
    from qanat.broker.broker import Broker


class MarkerWriter:
    """Writes markers into the partitions that this broker leads."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def write(self, marker: EndMarker, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        """Write to each, and return when every marker is on disk, or cannot be written."""
        waiting: dict[TopicPartition, asyncio.Future[None] | ErrorCode | None] = {}
        for at in partitions:
            waiting[at] = await self._begin(marker, at)
        return {at: await _outcome(begun) for at, begun in waiting.items()}

    async def _begin(self, marker: EndMarker, at: TopicPartition) -> asyncio.Future[None] | ErrorCode | None:
        partition = self._broker.partition(at.topic, at.partition)
        if not isinstance(partition, Partition):
            return partition
        try:
            if at.topic == OFFSETS_TOPIC:
                return await self._broker.groups.end_transaction(at.partition, marker)
            async with self._broker.runtime.in_line(partition.log):
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

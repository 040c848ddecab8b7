"""`cleanup.policy=consume`: records go once every share group that must see them is past them.

The groups are those of the topic's `consume.groups`. The log begins at the lowest offset at which one of them
stands, durably; what is before that is no longer served, and whole segments of it are deleted with the next look for
old ones. A group that has not fetched from a partition yet keeps everything in it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from qanat.broker.replicas.partition import Partition
from qanat.groups.share.state_records import ShareKey
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError

if TYPE_CHECKING:
    from qanat.broker.broker import Broker

_PAUSE_S = 0.2
"""Groups move on with every acknowledgement; logs need not follow at once."""


class ConsumeRetention:
    """Lets logs begin where their groups stand."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._moved: dict[Partition, None] = {}
        self._following: asyncio.Task[None] | None = None

    def concerns(self, partition: Partition) -> bool:
        return partition.log.settings.is_consumed

    def look_at(self, partition: Partition) -> None:
        """A group is further in this partition than before."""
        self._moved[partition] = None
        if self._following is None or self._following.done():
            self._following = self._broker.park(self._follow())

    async def _follow(self) -> None:
        while self._moved:
            moved, self._moved = self._moved, {}
            for partition in moved:
                await self._advance(partition)
            await asyncio.sleep(_PAUSE_S)

    async def _advance(self, partition: Partition) -> None:
        groups = self._broker.topic_settings(partition.at.topic).consume_groups
        starts = [await self._start_of(group, partition) for group in groups]
        known = [start for start in starts if start is not None]
        if partition.is_retired or not known or len(known) < len(groups):
            return
        if not partition.knows_high_watermark:
            self._moved[partition] = None  # A new leader: the next round sees all that is committed.
            return
        try:
            partition.log.advance_log_start(min(*known, partition.log.high_watermark))
        except QanatError:
            return  # A log that has failed is told of elsewhere.

    async def _start_of(self, group_id: str, partition: Partition) -> int | None:
        """Where a group stands and will after a crash; None where it has no state here, or it cannot be had now."""
        key = ShareKey(group_id, partition.topic_id, partition.at.partition)
        shares = self._broker.share_partitions
        if (led := shares.led(key)) is not None:
            return led.durable_start_offset
        state = await shares.states.state_of(key)
        return None if state is None or isinstance(state, ErrorCode) else state.start_offset

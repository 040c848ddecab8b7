"""Consume retention (`cleanup.policy=consume`): records are deleted once every share group that must see them is past
them.

The groups are those of the topic's `consume.groups`. The log starts at the lowest durable offset of these groups;
records before that are no longer served, and retention deletes whole segments of them. A group that has not fetched
from a partition yet retains everything in it.
"""

from __future__ import annotations

import asyncio

from qanat.broker.replicas.partition import Partition
from qanat.broker.runtime.parked_tasks import TaskOwner
from qanat.broker.settings.current_settings import CurrentSettings
from qanat.broker.share.share_partitions import SharePartitions
from qanat.groups.share.state_records import ShareKey
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError

_PAUSE_S = 0.2
"""Groups move on with every acknowledgement; logs need not follow at once."""


class ConsumeRetention:
    """Lets logs start where their groups are."""

    def __init__(self, shares: SharePartitions, settings: CurrentSettings, tasks: TaskOwner) -> None:
        self._shares = shares
        self._settings = settings
        self._tasks = tasks
        self._moved: dict[Partition, None] = {}
        self._following: asyncio.Task[None] | None = None

    def note_progress(self, partition: Partition) -> None:
        """A group is further in this partition than before."""
        if not partition.log.settings.is_consumed:
            return
        self._moved[partition] = None
        if self._following is None or self._following.done():
            self._following = self._tasks.park(self._follow())

    async def _follow(self) -> None:
        while self._moved:
            moved, self._moved = self._moved, {}
            for partition in moved:
                await self._advance(partition)
            await asyncio.sleep(_PAUSE_S)

    async def _advance(self, partition: Partition) -> None:
        groups = self._settings.topic(partition.at.topic).consume_groups
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
            return  # A log that has failed is reported elsewhere.

    async def _start_of(self, group_id: str, partition: Partition) -> int | None:
        """A group's durable offset; None where it has no state here, or its state is unavailable now."""
        key = ShareKey(group_id, partition.topic_id, partition.at.partition)
        if (led := self._shares.led(key)) is not None:
            return led.durable_start_offset
        state = await self._shares.states.state_of(key)
        return None if state is None or isinstance(state, ErrorCode) else state.start_offset

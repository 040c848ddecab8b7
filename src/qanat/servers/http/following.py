"""Fetches of a stream that wait at several leaders: who has nothing yet goes on waiting when another has.

Begun anew for every record, each of them would cost the others a request and a connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from qanat.broker.unwaited import abandon
from qanat.model.errors import QanatError
from qanat.servers.http.problems import Problem

if TYPE_CHECKING:
    from qanat.servers.http.caller import Caller
    from qanat.servers.http.reading import Reading
    from qanat.wire.kafka.messages.fetch import PartitionData


class Following:
    """One stream's fetches."""

    def __init__(
        self, reading: Reading, caller: Caller, topic: str, max_bytes: int, wait_ms: int, is_committed: bool
    ) -> None:
        self._reading = reading
        self._caller = caller
        self._topic = topic
        self._limits = (max_bytes, wait_ms, is_committed)
        self._waiting: dict[asyncio.Task[list[PartitionData]], frozenset[int]] = {}

    async def rows(self, positions: Mapping[int, int]) -> list[PartitionData]:
        """What comes first; `positions` of partitions that were not told of since are as they were."""
        asked = frozenset().union(*self._waiting.values())
        by_leader: dict[int, dict[int, int]] = {}
        for partition, offset in positions.items():
            if partition not in asked:
                by_leader.setdefault(self._reading.leader(self._topic, partition), {})[partition] = offset
        if len(by_leader) == 1 and not self._waiting:
            ((leader, wanted),) = by_leader.items()
            return await self._reading.fetch_one(self._caller, self._topic, wanted, leader, *self._limits)
        for leader, wanted in by_leader.items():
            fetch = self._reading.fetch_one(self._caller, self._topic, wanted, leader, *self._limits)
            self._waiting[asyncio.create_task(fetch)] = frozenset(wanted)
        done, _ = await asyncio.wait(self._waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            del self._waiting[task]
        try:
            return [row for task in done for row in task.result()]
        finally:
            abandon(*done, expected=(Problem, QanatError))  # One fault is raised; the others say nothing more.

    def stop(self) -> None:
        """Wait no longer; what came meanwhile is dropped."""
        abandon(*self._waiting, expected=(Problem, QanatError))
        self._waiting = {}

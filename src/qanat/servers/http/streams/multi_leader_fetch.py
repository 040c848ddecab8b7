"""Fetches of a stream at several leaders: one that found records does not end the parked ones.

If each record started all fetches again, it would cost every other leader a request and a connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from qanat.broker.runtime.detached_work import abandon
from qanat.model.errors import QanatError
from qanat.servers.http.problems import Problem

if TYPE_CHECKING:
    from qanat.servers.http.caller import HttpCaller
    from qanat.servers.http.records.partition_reads import PartitionReads
    from qanat.wire.kafka.messages.fetch import PartitionData


class MultiLeaderFetch:
    """The fetches of one stream."""

    def __init__(
        self, reads: PartitionReads, caller: HttpCaller, topic: str, max_bytes: int, wait_ms: int, is_committed: bool
    ) -> None:
        self._reads = reads
        self._caller = caller
        self._topic = topic
        self._limits = (max_bytes, wait_ms, is_committed)
        self._waiting: dict[asyncio.Task[list[PartitionData]], frozenset[int]] = {}

    async def rows(self, positions: Mapping[int, int]) -> list[PartitionData]:
        """The rows that come first; the `positions` of partitions that wait have not changed."""
        asked = frozenset().union(*self._waiting.values())
        by_leader: dict[int, dict[int, int]] = {}
        for partition, offset in positions.items():
            if partition not in asked:
                by_leader.setdefault(self._reads.leader(self._topic, partition), {})[partition] = offset
        if len(by_leader) == 1 and not self._waiting:
            ((leader, wanted),) = by_leader.items()
            return await self._reads.fetch_one(self._caller, self._topic, wanted, leader, *self._limits)
        for leader, wanted in by_leader.items():
            fetch = self._reads.fetch_one(self._caller, self._topic, wanted, leader, *self._limits)
            self._waiting[asyncio.create_task(fetch)] = frozenset(wanted)
        done, _ = await asyncio.wait(self._waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            del self._waiting[task]
        try:
            return [row for task in done for row in task.result()]
        finally:
            abandon(*done, expected=(Problem, QanatError))  # One fault is raised; the others are dropped.

    def stop(self) -> None:
        """Cancel the fetches; rows that arrived meanwhile are dropped."""
        abandon(*self._waiting, expected=(Problem, QanatError))
        self._waiting = {}

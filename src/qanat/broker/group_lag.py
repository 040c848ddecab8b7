"""The collector of lag: every few seconds, how far the groups that this broker coordinates are behind.

Each group has one coordinator, so each group's lag is computed and exported once in a cluster. Its committed offsets
are here in memory; the ends of partitions that other brokers lead cost one ListOffsets per leader and pass. Other
brokers and the command line read the outcome (`api.configs.group_lag`); what it means is decided in `groups.lag`.

Rule 1: it works while someone looks: it starts with the first question, and stops when none came for ten minutes.
Rule 2: one pass at a time, in pieces: requests of clients go first.
Rule 3: a leader that does not answer costs its partitions one pass, not the pass itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from qanat.broker.replicas.partition import Partition
from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.groups.lag.lag_book import LagBook, Position
from qanat.groups.lag.reports import GroupLagDetails, HistoryPoint, LagReport
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import NO_TIMESTAMP, TopicPartition
from qanat.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.broker.coordinators.group_coordinator import GroupCoordinator
    from qanat.broker.metadata.image_watcher import ImageWatcher
    from qanat.broker.replicas.partition_lookup import PartitionLookup
    from qanat.broker.runtime.peers import Peers
    from qanat.broker.settings.broker_settings import BrokerSettings
    from qanat.broker.share.administration import ShareAdministration
    from qanat.groups.shard import GroupShard
    from qanat.log.runtime.log_runtime import LogRuntime

IDLE_MS = 600_000
"""How long the collector goes on after the last question."""
_ANSWER_S = 5.0
"""How long a leader may take."""
_FIRST_PASS_S = 10.0
"""How long the first question waits for the first pass."""
_LATEST = -1
_CONSUMER = -1
"""The replica id of clients."""


class LagHost(Protocol):
    """What the collector needs of its broker."""

    node_id: int
    steady_ms: Callable[[], int]

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def runtime(self) -> LogRuntime: ...

    @property
    def metadata(self) -> ImageWatcher: ...

    @property
    def lookup(self) -> PartitionLookup: ...

    @property
    def peers(self) -> Peers: ...

    @property
    def groups(self) -> GroupCoordinator: ...

    @property
    def share_administration(self) -> ShareAdministration: ...

    def is_made(self, name: str) -> bool: ...

    def park(self, work: Coroutine[Any, Any, None], /) -> asyncio.Task[None]: ...


class GroupLagCollector:
    """The lag of the groups of this broker."""

    def __init__(self, host: LagHost) -> None:
        self._host = host
        self._book = LagBook()
        self._asked_ms = 0
        self._task: asyncio.Task[None] | None = None
        self._first_pass = asyncio.Event()
        self.collected_ms: int | None = None
        """When the last pass ended, by the wall clock; None before the first."""
        self._to_wall_ms = 0
        """Takes a time of the steady clock to the wall clock, as of the last pass."""

    @property
    def book(self) -> LagBook:
        """The outcome of the last pass."""
        return self._book

    def touch(self) -> None:
        """Someone looks: collect, unless that is turned off."""
        self._asked_ms = self._host.steady_ms()
        if self._host.settings.group_lag_interval_ms and (self._task is None or self._task.done()):
            self._task = self._host.park(self._run())

    async def ready(self) -> bool:
        """Whether there is an outcome; the first question waits for it."""
        self.touch()
        if self._task is not None and not self._first_pass.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_PASS_S):
                    await self._first_pass.wait()
        return self.collected_ms is not None

    def report(self) -> LagReport | None:
        """All groups; None before the first pass."""
        if self.collected_ms is None:
            return None
        interval_ms = self._host.settings.group_lag_interval_ms
        return LagReport(self._host.node_id, self.collected_ms, interval_ms, self._book.lags())

    def details(self, group: str) -> GroupLagDetails | None:
        """One group with its partitions and history; None where it has committed nothing, or is not ours."""
        lag = self._book.lag(group)
        if lag is None or self.collected_ms is None:
            return None
        collected_ms, to_wall_ms = self.collected_ms, self._to_wall_ms
        history = [
            HistoryPoint(min(at_ms + to_wall_ms, collected_ms), records, seconds)
            for at_ms, records, seconds in self._book.history(group)
        ]
        return GroupLagDetails(collected_ms, lag, self._book.partitions(group), history)

    async def _run(self) -> None:
        try:
            while self._host.steady_ms() - self._asked_ms < IDLE_MS:
                await self._collect()
                self.collected_ms = self._host.runtime.clock_ms()
                self._to_wall_ms = self.collected_ms - self._host.steady_ms()
                self._first_pass.set()
                await asyncio.sleep(self._host.settings.group_lag_interval_ms / 1000)
                if not self._host.settings.group_lag_interval_ms:
                    break
        finally:
            self._book, self.collected_ms = LagBook(), None
            self._first_pass.clear()

    async def _collect(self) -> None:
        """One pass."""
        yielder = CooperativeYield()
        shards = await self._shards()
        shared = {group: await self._shared(group) for shard in shards for group in list(shard.ledger.shares)}
        wanted: dict[TopicPartition, None] = {one.at: None for positions in shared.values() for one in positions}
        for shard in shards:
            async for group in yielder.over(shard.ledger.offsets.group_ids()):
                wanted |= dict.fromkeys(shard.ledger.offsets.committed_of(group))
        await self._observe_ends(list(wanted), yielder)
        now_ms = self._host.steady_ms()
        to_steady_ms = now_ms - self._host.runtime.clock_ms()
        for shard in shards:
            async for group in yielder.over(shard.ledger.offsets.group_ids()):
                kind = "consumer" if group in shard.ledger.consumers else "classic"
                positions = _positions(shard, group, to_steady_ms, now_ms)
                self._book.observe_group(group, kind, positions, now_ms)
        async for group, found in yielder.over(shared.items()):
            self._book.observe_group(group, "share", found, now_ms)
        self._book.end_pass()

    async def _shards(self) -> list[GroupShard]:
        """The groups of every partition of `__consumer_offsets` that we lead."""
        if not self._host.is_made("groups"):
            return []
        groups = self._host.groups
        found = [await groups.shard(number) for number in groups.topic.numbers()]
        return [one.shard for one in found if not isinstance(one, ErrorCode)]

    async def _shared(self, group: str) -> list[Position]:
        """The positions of a share group: its start offsets."""
        administration = self._host.share_administration
        positions: list[Position] = []
        for topic in (await administration.topics(group)).topics:
            for one in await administration.progress(group, topic.name, topic.partitions):
                if one.error is ErrorCode.NONE and one.start_offset >= 0:
                    at = TopicPartition(topic.name, one.partition)
                    positions.append(Position(at, one.start_offset, None, one.lag if one.lag >= 0 else None))
        return positions

    async def _observe_ends(self, wanted: list[TopicPartition], yielder: CooperativeYield) -> None:
        elsewhere: dict[int, list[TopicPartition]] = {}
        image = self._host.metadata.image
        async for at in yielder.over(wanted):
            topic = image.topics.get(at.topic)
            if topic is None or at.partition >= len(topic.partitions):
                continue  # Deleted: the offsets will be, too.
            leader = image.state(topic, at.partition).leader
            found = self._host.lookup.led(*at)
            if isinstance(found, Partition) and found.knows_high_watermark:
                end = found.end_of_reading(is_committed=False)
                self._book.observe_end(at, topic.topic_id, end, self._host.steady_ms())
            elif leader in (self._host.node_id, -1):
                self._book.keep_end(at)
            else:
                elsewhere.setdefault(leader, []).append(at)
        await asyncio.gather(*(self._ask(leader, places) for leader, places in elsewhere.items()))

    async def _ask(self, leader: int, places: list[TopicPartition]) -> None:
        """The ends of partitions that another broker leads."""
        ends: dict[TopicPartition, int] = {}
        with suppress(QanatError):  # It is down, or its partitions move: they keep their ends for a pass.
            ends = await self._ends_at(leader, places)
        image, now_ms = self._host.metadata.image, self._host.steady_ms()
        for at in places:
            topic = image.topics.get(at.topic)
            if topic is not None and at in ends:
                self._book.observe_end(at, topic.topic_id, ends[at], now_ms)
            else:
                self._book.keep_end(at)

    async def _ends_at(self, leader: int, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for at in places:
            topics.setdefault(at.topic, []).append(ListOffsetsPartition(at.partition, timestamp=_LATEST))
        request = ListOffsetsRequest(_CONSUMER, topics=[ListOffsetsTopic(*one) for one in topics.items()])
        response: ListOffsetsResponse = await self._host.peers.call(leader, ApiKey.LIST_OFFSETS, request, _ANSWER_S)
        return {
            TopicPartition(topic.name, row.partition_index): row.offset
            for topic in response.topics
            for row in topic.partitions
            if not row.error_code
        }


def _positions(shard: GroupShard, group: str, to_steady_ms: int, now_ms: int) -> list[Position]:
    """Where a group is; `to_steady_ms` takes a time of the wall clock to the steady one."""
    positions = []
    for one in shard.ledger.offsets.of_group(group):
        stamp = one.commit_timestamp_ms
        committed_ms = None if stamp == NO_TIMESTAMP else min(stamp + to_steady_ms, now_ms)
        positions.append(Position(TopicPartition(one.topic, one.partition), one.offset, committed_ms))
    return positions

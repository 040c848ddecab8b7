"""Sizes and rates of all topics: a snapshot that is kept up to date while someone looks at it.

Every few seconds a pass reads start, end and size of each partition: of this broker's own logs in memory, of the others
with one ListOffsets and one DescribeLogDirs per broker. Rates are differences of two passes. Listings, sorted and paged
by any of these numbers, read the snapshot and compute nothing.

Rule 1: it starts with the first question and stops when none came for ten minutes: an idle broker pays nothing.
Rule 2: one pass at a time, in pieces: requests of clients go first.
Rule 3: it reads under the broker's own name. What a caller may see of it is decided where it is shown.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from qanat.broker.replicas.partition import Partition
from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.servers.http.admin.rate_history import RateRing
from qanat.wire.kafka.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from qanat.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qanat.servers.http.kafka_gateway import KafkaGateway

INTERVAL_S = 5.0
IDLE_S = 600.0
"""How long passes go on after the last question."""
_FIRST_PASS_S = 2.0
"""How long the first question waits for the first pass."""
_ANSWER_S = 5.0
_EARLIEST, _LATEST = -2, -1
_CLIENT = -1
_CLUSTER_RINGS = ((int(INTERVAL_S * 1000), 720), (60_000, 1440))
"""An hour of passes, and a day of minutes."""
_TOPIC_RING = (30_000, 120)
"""An hour for a topic; none for topics that nobody writes to."""


class PartitionRange(NamedTuple):
    """A partition as its leader has it."""

    start: int
    end: int
    size_bytes: int


class TopicTraffic(Struct):
    """A topic in the last pass."""

    size_bytes: int = 0
    """Of the leaders' logs; replicas take as much again, each."""
    records: int = 0
    """Offsets between start and end: what compaction removed counts, and so do markers of transactions."""
    ends: int = 0
    """The sum of the ends."""
    records_per_s: float = 0.0
    bytes_per_s: float = 0.0
    history: RateRing | None = None


class BrokerLoad(Struct):
    """What a broker carries."""

    leaders: int = 0
    replicas: int = 0
    size_bytes: int = 0
    total_bytes: int | None = None
    """Of the volume with its data; None where that is unknown."""
    usable_bytes: int | None = None


_NOTHING = TopicTraffic()


class Traffic:
    """The snapshot."""

    def __init__(self, gateway: KafkaGateway) -> None:
        self._gateway = gateway
        self._broker = gateway.broker
        self._asked_s = 0.0
        self._task: asyncio.Task[None] | None = None
        self._first_pass = asyncio.Event()
        self._ranges: dict[TopicPartition, PartitionRange] = {}
        self._topics: dict[str, TopicTraffic] = {}
        self.brokers: dict[int, BrokerLoad] = {}
        self.collected_ms: int | None = None
        """When the last pass ended; None before the first."""
        self.total = TopicTraffic()
        self.without_leader = self.under_replicated = self.partitions = 0
        self._rings = [RateRing(*shape) for shape in _CLUSTER_RINGS]
        self._passed_s = 0.0

    async def ready(self) -> bool:
        """Whether there is a snapshot; the first question waits for it."""
        self._asked_s = time.monotonic()
        if self._task is None or self._task.done():
            self._task = self._broker.park(self._run())
        if not self._first_pass.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_PASS_S):
                    await self._first_pass.wait()
        return self.collected_ms is not None

    def of_topic(self, name: str) -> TopicTraffic:
        return self._topics.get(name, _NOTHING)

    def of_partition(self, topic: str, number: int) -> PartitionRange | None:
        return self._ranges.get(TopicPartition(topic, number))

    def history(self) -> list[RateRing]:
        """Of the cluster: the last hour, and the last day."""
        return self._rings

    async def _run(self) -> None:
        try:
            while time.monotonic() - self._asked_s < IDLE_S:
                await self._collect()
                self.collected_ms = self._broker.runtime.clock_ms()
                self._first_pass.set()
                await asyncio.sleep(INTERVAL_S)
        finally:
            self._first_pass.clear()
            self._ranges, self._topics, self.brokers, self.collected_ms = {}, {}, {}, None
            self.total, self._rings = TopicTraffic(), [RateRing(*shape) for shape in _CLUSTER_RINGS]

    async def _collect(self) -> None:
        """One pass."""
        yielder = CooperativeYield()
        broker, image = self._broker, self._broker.metadata.image
        ranges: dict[TopicPartition, PartitionRange] = {}
        elsewhere: dict[int, list[TopicPartition]] = {}
        loads = {node_id: BrokerLoad() for node_id in image.brokers}
        without_leader = under_replicated = partitions = 0
        async for topic in yielder.over(list(image.topics.values())):
            if topic.name not in image.topics:
                continue  # It was deleted during this pass.
            for number in range(len(topic.partitions)):
                at, state = TopicPartition(topic.name, number), image.state(topic, number)
                partitions += 1
                without_leader += state.leader < 0
                under_replicated += len(state.in_sync) < len(state.replicas)
                for node_id in state.replicas:
                    if node_id in loads:
                        loads[node_id].replicas += 1
                if state.leader in loads:
                    loads[state.leader].leaders += 1
                found = broker.lookup.led(*at)
                if isinstance(found, Partition) and found.knows_high_watermark:
                    log = found.log
                    size = sum([segment.size for segment in log.segments])
                    ranges[at] = PartitionRange(log.log_start_offset, found.end_of_reading(is_committed=False), size)
                elif state.leader >= 0 and state.leader != broker.node_id:
                    elsewhere.setdefault(state.leader, []).append(at)
                elif (before := self._ranges.get(at)) is not None:
                    ranges[at] = before
        sizes = await self._sizes(loads)
        await asyncio.gather(*(self._ask(leader, places, sizes, ranges) for leader, places in elsewhere.items()))
        self.without_leader, self.under_replicated, self.partitions = without_leader, under_replicated, partitions
        self.brokers = loads
        await self._compare(ranges, yielder)

    async def _sizes(self, loads: dict[int, BrokerLoad]) -> dict[tuple[int, TopicPartition], int]:
        """Sizes of the other brokers' logs; notes the room of every broker."""
        found: dict[tuple[int, TopicPartition], int] = {}

        async def ask(node_id: int, load: BrokerLoad) -> None:
            is_here = node_id == self._broker.node_id
            topics: list[object] | None = [] if is_here else None
            request = DescribeLogDirsRequest(topics)  # type: ignore[arg-type]
            with suppress(QanatError):
                response: DescribeLogDirsResponse = (
                    await self._gateway.call(self._gateway.own_caller, ApiKey.DESCRIBE_LOG_DIRS, request)
                    if is_here
                    else await self._broker.peers.call(node_id, ApiKey.DESCRIBE_LOG_DIRS, request, _ANSWER_S)
                )
                for directory in response.results:
                    if directory.total_bytes >= 0:
                        load.total_bytes, load.usable_bytes = directory.total_bytes, directory.usable_bytes
                    for topic in directory.topics:
                        for row in topic.partitions:
                            load.size_bytes += row.partition_size
                            found[node_id, TopicPartition(topic.name, row.partition_index)] = row.partition_size
            if is_here:
                logs = list(self._broker.runtime.directory.logs.values())
                load.size_bytes = sum([segment.size for log in logs for segment in log.segments])

        await asyncio.gather(*(ask(node_id, load) for node_id, load in loads.items()))
        return found

    async def _ask(
        self,
        leader: int,
        places: list[TopicPartition],
        sizes: dict[tuple[int, TopicPartition], int],
        ranges: dict[TopicPartition, PartitionRange],
    ) -> None:
        """The ranges of partitions that another broker leads; those of the pass before where it does not answer."""
        starts: dict[TopicPartition, int] = {}
        ends: dict[TopicPartition, int] = {}
        with suppress(QanatError):
            starts = await self._offsets(leader, places, _EARLIEST)
            ends = await self._offsets(leader, places, _LATEST)
        for at in places:
            if at in starts and at in ends:
                ranges[at] = PartitionRange(starts[at], ends[at], sizes.get((leader, at), 0))
            elif (before := self._ranges.get(at)) is not None:
                ranges[at] = before

    async def _offsets(self, leader: int, places: Iterable[TopicPartition], moment: int) -> dict[TopicPartition, int]:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for at in places:
            topics.setdefault(at.topic, []).append(ListOffsetsPartition(at.partition, timestamp=moment))
        request = ListOffsetsRequest(_CLIENT, topics=[ListOffsetsTopic(*one) for one in topics.items()])
        response: ListOffsetsResponse = await self._broker.peers.call(leader, ApiKey.LIST_OFFSETS, request, _ANSWER_S)
        return {
            TopicPartition(topic.name, row.partition_index): row.offset
            for topic in response.topics
            for row in topic.partitions
            if not row.error_code
        }

    async def _compare(self, ranges: dict[TopicPartition, PartitionRange], yielder: CooperativeYield) -> None:
        """Rates since the pass before."""
        now_s = time.monotonic()
        passed_s = now_s - self._passed_s if self._passed_s and self.collected_ms is not None else None
        now_ms = self._broker.runtime.clock_ms()
        topics: dict[str, TopicTraffic] = {}
        total = TopicTraffic()
        async for at, one in yielder.over(ranges.items()):
            row = topics.setdefault(at.topic, TopicTraffic())
            row.size_bytes += one.size_bytes
            row.records += one.end - one.start
            row.ends += one.end
        async for name, row in yielder.over(topics.items()):
            before = self._topics.get(name)
            if before is not None and passed_s:
                _set_rates(row, before, passed_s)
                row.history = before.history
            if row.records_per_s and row.history is None:
                row.history = RateRing(*_TOPIC_RING)
            if row.history is not None:
                row.history.add(now_ms, row.records_per_s, row.bytes_per_s)
            total.size_bytes += row.size_bytes
            total.records += row.records
            total.records_per_s += row.records_per_s
            total.bytes_per_s += row.bytes_per_s
        if passed_s:
            for ring in self._rings:
                ring.add(now_ms, total.records_per_s, total.bytes_per_s)
        self._ranges, self._topics, self.total, self._passed_s = ranges, topics, total, now_s


def _set_rates(row: TopicTraffic, before: TopicTraffic, passed_s: float) -> None:
    """Rates of a topic; where retention deleted a segment meanwhile, bytes are those of an average record."""
    written = max(0, row.ends - before.ends)
    grown = row.size_bytes - before.size_bytes
    if written and grown <= 0:
        grown = round(written * row.size_bytes / max(1, row.records))
    row.records_per_s = written / passed_s
    row.bytes_per_s = max(0, grown) / passed_s if written else 0.0

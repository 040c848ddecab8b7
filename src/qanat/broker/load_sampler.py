"""The load sampler: what requests of this broker wait for, looked at some twenty times a second while someone watches.

Counting each wait would cost every request. Looking at how many wait, again and again, gives the same sums: the number
of waits times the time between two looks. What is counted anyway (requests, flushes, CPU time) is read beside it.
`diagnosis` judges what two readings differ by.

Rule 1: it works while someone looks: it starts with the first question, and stops when none came for ten minutes.
Rule 2: looks take at most half a percent of the loop: the more there is to look at, the rarer they are.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.diagnosis.readings import (
    ApiReading,
    BrokerReading,
    GroupReading,
    PartitionReading,
    TimedReading,
    WaitReading,
)
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.broker.group_lag import GroupLagCollector
    from qanat.broker.metadata.image_watcher import ImageWatcher
    from qanat.broker.replicas.partition import Partition
    from qanat.log.runtime.log_runtime import LogRuntime
    from qanat.telemetry.histogram import Histogram
    from qanat.telemetry.listener_counters import ListenerCounters

IDLE_S = 600.0
"""How long it goes on after the last question."""
LOOK_S = 0.05
LAG_S = 2.0
"""How long the first question waits for the lag of groups."""
LOOK_MAX_S = 2.0
_COST = 0.005
_COARSE_S = 0.002
"""How late the timers of an idle loop are: it counts milliseconds."""
PARTITIONS_MAX = 200
GROUPS_MAX = 100
CLIENTS_MAX = 20
_EVERYTHING = 2**63
_STARVED = "/proc/thread-self/schedstat"


class ListenerLoad(Protocol):
    """What is read of the Kafka listener."""

    @property
    def counters(self) -> ListenerCounters: ...

    def paused_clients(self) -> Iterable[str]:
        """The client ids of connections that are not read, once each connection."""
        ...


class LoadHost(Protocol):
    """What the sampler needs of its broker."""

    node_id: int
    listener_load: ListenerLoad | None

    @property
    def partitions(self) -> Mapping[TopicPartition, Partition]: ...

    @property
    def runtime(self) -> LogRuntime: ...

    @property
    def metadata(self) -> ImageWatcher: ...

    @property
    def group_lag(self) -> GroupLagCollector: ...

    def park(self, work: Coroutine[Any, Any, None], /) -> asyncio.Task[None]: ...


class LoadSampler:
    """What one broker's requests wait for."""

    def __init__(self, host: LoadHost) -> None:
        self._host = host
        self._asked_s = 0.0
        self._task: asyncio.Task[None] | None = None
        self._begin(0.0)

    def _begin(self, now_s: float) -> None:
        self._since_s = now_s
        self._looks = 0
        self._late_s = 0.0
        self._disk = self._followers = self._cold = self._store = self._paused = 0.0
        self._behind: defaultdict[int, float] = defaultdict(float)
        self._clients: defaultdict[str, float] = defaultdict(float)
        self._written_before: dict[TopicPartition, tuple[int, int, int]] = {}
        """Leader epoch, written bytes and end of partitions at the first look."""

    def touch(self) -> None:
        """Someone looks: go on, or begin."""
        now_s = asyncio.get_running_loop().time()
        self._asked_s = now_s
        if self._task is None or self._task.done():
            self._begin(now_s)
            self._written_before = {
                at: (one.leader_epoch, one.written_bytes, one.log.end_offset)
                for at, one in self._host.partitions.items()
            }
            self._task = self._host.park(self._run())

    async def reading(self) -> BrokerReading:
        """Everything since the first look, which this is where nobody has watched."""
        self.touch()
        host, loop = self._host, asyncio.get_running_loop()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAG_S):
                await host.group_lag.ready()
        records = 0
        written: list[tuple[int, int, TopicPartition]] = []
        async for at, partition in CooperativeYield().over(list(host.partitions.items())):
            records += partition.log.end_offset
            epoch, size, end = self._written_before.get(at, (-1, 0, partition.epoch_start))
            size = partition.written_bytes - (size if epoch == partition.leader_epoch else 0)
            if size > 0:
                written.append((size, partition.log.end_offset - end, at))
        written.sort(key=lambda one: (-one[0], one[2]))
        flushes = host.runtime.counters.flush_s
        return BrokerReading(
            host.node_id,
            self._since_s,
            loop.time(),
            time.thread_time(),
            _starved_s(),
            TimedReading(self._looks, self._late_s),
            WaitReading(self._disk, self._followers, self._cold, self._store, self._paused),
            _timed(flushes),
            host.runtime.counters.cold_reads,
            _timed(host.metadata.commit_s),
            self._apis(),
            records,
            [
                PartitionReading(*at, self._partitions_of(at.topic), size, count)
                for size, count, at in written[:PARTITIONS_MAX]
            ],
            dict(self._behind),
            dict(sorted(self._clients.items(), key=lambda one: -one[1])[:CLIENTS_MAX]),
            self._groups(),
        )

    def _apis(self) -> dict[str, ApiReading]:
        listener = self._host.listener_load
        if listener is None:
            return {}
        return {
            ApiKey(key).name: ApiReading(
                api.requests, api.duration_s.total, api.loop_s, api.request_bytes, api.response_bytes
            )
            for key, api in listener.counters.by_api.items()
            if api.requests
        }

    def _partitions_of(self, topic: str) -> int:
        found = self._host.metadata.image.topics.get(topic)
        return 0 if found is None else len(found.partitions)

    def _groups(self) -> list[GroupReading]:
        report = self._host.group_lag.report()
        if report is None:
            return []
        rows = sorted(report.groups, key=lambda one: (-one.seconds, one.group))[:GROUPS_MAX]
        return [GroupReading(one.group, one.state, one.records, one.seconds) for one in rows]

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        before_s, pause_s = loop.time(), LOOK_S
        while before_s - self._asked_s < IDLE_S:
            await asyncio.sleep(pause_s)
            now_s, began = loop.time(), time.perf_counter()
            self._looks += 1
            self._late_s += max(0.0, now_s - before_s - pause_s - _COARSE_S)
            self._look(now_s - before_s)
            before_s = now_s
            pause_s = min(LOOK_MAX_S, max(LOOK_S, (time.perf_counter() - began) / _COST))

    def _look(self, step_s: float) -> None:
        """Add what waits now, for as long as it was since the last look."""
        host = self._host
        self._disk += step_s * self._sole_appends()
        for partition in host.partitions.values():
            if partition.leader is not None and (ends := partition.waiting_ends):
                self._look_at_replicated(partition, ends, step_s)
        self._cold += step_s * host.runtime.cold_reads_waiting
        self._store += step_s * host.metadata.committing
        if host.listener_load is not None:
            for client_id in host.listener_load.paused_clients():
                self._paused += step_s
                if client_id in self._clients or len(self._clients) < 10 * CLIENTS_MAX:
                    self._clients[client_id] += step_s

    def _sole_appends(self) -> int:
        """Appends to partitions without followers that wait for a flush; those of followers are nobody's requests."""
        count = self._host.runtime.appends_without_room
        for log, waiting in self._host.runtime.waiting_for_flush():
            partition = self._host.partitions.get(log.topic_partition)
            if partition is not None and partition.leader is None:
                count += waiting
        return count

    def _look_at_replicated(self, partition: Partition, ends: list[int], step_s: float) -> None:
        """Appends to a partition with followers: `ends` says up to where each has to be committed."""
        leader, log = partition.leader, partition.log
        assert leader is not None, "it has followers"
        flushed = log.flushed_offset if log.settings.is_synced else _EVERYTHING
        here = bisect_right(ends, flushed)
        self._disk += step_s * (len(ends) - here)
        self._followers += step_s * here
        held = sorted((leader.held_by(one)[1], one) for one in leader.in_sync if one != self._host.node_id)
        if held:
            lowest, slowest = held[0]
            others = held[1][0] if len(held) > 1 else _EVERYTHING
            alone = bisect_right(ends, min(flushed, others)) - bisect_right(ends, lowest)
            if alone > 0:
                self._behind[slowest] += step_s * alone


def _timed(histogram: Histogram) -> TimedReading:
    return TimedReading(histogram.count, histogram.total)


def _starved_s() -> float:
    """How long this thread was ready and had no core; 0 where the system does not say."""
    try:
        with open(_STARVED, "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0

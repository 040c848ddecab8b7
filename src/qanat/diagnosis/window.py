"""Windows: two readings of a broker as differences, rates and shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from qanat.diagnosis.readings import (
    ApiReading,
    BrokerReading,
    ClusterReading,
    GroupReading,
    PartitionReading,
    TimedReading,
    WaitReading,
)

Key = TypeVar("Key", int, str)

SHORTEST_S = 0.5
"""In less than this, nothing can be said."""
_NOTHING = ApiReading(0, 0.0, 0.0, 0, 0)
PRODUCE = "PRODUCE"


@dataclass(frozen=True)
class BrokerWindow:
    """What one broker did between two readings."""

    before: BrokerReading
    after: BrokerReading

    @property
    def node_id(self) -> int:
        return self.after.node_id

    @property
    def seconds(self) -> float:
        return self.after.at_s - self.before.at_s

    def share(self, seconds: float) -> float:
        """Seconds of the window as a share of it."""
        return max(0.0, seconds) / self.seconds

    # The event loop

    @property
    def loop_share(self) -> float:
        """How much of a core the event loop used."""
        return self.share(self.after.loop_cpu_s - self.before.loop_cpu_s)

    @property
    def starved_share(self) -> float:
        """For how much of the time the loop was ready and had no core."""
        return self.share(self.after.loop_starved_s - self.before.loop_starved_s)

    @property
    def demand(self) -> float:
        """How much of a core the loop used or would have used."""
        return self.loop_share + self.starved_share

    @cached_property
    def late(self) -> TimedReading:
        return _passed(self.before.late, self.after.late)

    @property
    def late_s(self) -> float:
        """By how much an event was late on average."""
        return mean(self.late)

    # Requests

    @cached_property
    def apis(self) -> Mapping[str, ApiReading]:
        return {
            name: _api_passed(self.before.apis.get(name, _NOTHING), api)
            for name, api in self.after.apis.items()
            if api.requests > self.before.apis.get(name, _NOTHING).requests
            or api.seconds > self.before.apis.get(name, _NOTHING).seconds
        }

    @cached_property
    def requests(self) -> int:
        return sum(api.requests for api in self.apis.values())

    @property
    def produce(self) -> ApiReading:
        return self.apis.get(PRODUCE, _NOTHING)

    @cached_property
    def loop_seconds(self) -> float:
        """Seconds of the loop that went into requests."""
        return sum(api.loop_seconds for api in self.apis.values())

    @cached_property
    def waits(self) -> WaitReading:
        before, after = self.before.waits, self.after.waits
        return WaitReading(
            max(0.0, after.disk - before.disk),
            max(0.0, after.followers - before.followers),
            max(0.0, after.cold_reads - before.cold_reads),
            max(0.0, after.store - before.store),
            max(0.0, after.paused - before.paused),
        )

    @cached_property
    def flushes(self) -> TimedReading:
        return _passed(self.before.flushes, self.after.flushes)

    @cached_property
    def commits(self) -> TimedReading:
        return _passed(self.before.commits, self.after.commits)

    @property
    def cold_reads(self) -> int:
        return max(0, self.after.cold_reads - self.before.cold_reads)

    @property
    def written_records(self) -> int:
        """Those of partitions whose leadership moved meanwhile make it a guess, never a negative one."""
        return max(0, self.after.written_records - self.before.written_records)

    @cached_property
    def partitions(self) -> list[PartitionReading]:
        """The partitions that were written to, with what the window brought; most first."""
        before = {(one.topic, one.partition): (one.bytes, one.records) for one in self.before.partitions}
        rows = []
        for one in self.after.partitions:
            size, records = before.get((one.topic, one.partition), (0, 0))
            size, records = one.bytes - size, max(0, one.records - records)
            rows.append(PartitionReading(one.topic, one.partition, one.of, size, records))
        return sorted((one for one in rows if one.bytes > 0), key=lambda one: (-one.bytes, one.topic, one.partition))

    @cached_property
    def written_bytes(self) -> int:
        return sum(one.bytes for one in self.partitions)

    @cached_property
    def behind(self) -> Mapping[int, float]:
        return _grown(self.before.behind, self.after.behind)

    @cached_property
    def paused_clients(self) -> Mapping[str, float]:
        return _grown(self.before.paused_clients, self.after.paused_clients)

    @cached_property
    def groups(self) -> list[tuple[GroupReading, GroupReading]]:
        """Every group before and after."""
        before = {one.group: one for one in self.before.groups}
        return [(before[one.group], one) for one in self.after.groups if one.group in before]


def windows_of(before: ClusterReading, after: ClusterReading) -> list[BrokerWindow]:
    """The brokers that both snapshots have, in one watch; in the order of their ids."""
    return [
        BrokerWindow(before[node_id], after[node_id])
        for node_id in sorted(after)
        if node_id in before
        and before[node_id].since_s == after[node_id].since_s
        and after[node_id].at_s - before[node_id].at_s >= SHORTEST_S
    ]


def mean(timed: TimedReading) -> float:
    """How long one took; 0 where there was none."""
    return timed.seconds / timed.count if timed.count else 0.0


def _passed(before: TimedReading, after: TimedReading) -> TimedReading:
    return TimedReading(max(0, after.count - before.count), max(0.0, after.seconds - before.seconds))


def _api_passed(before: ApiReading, after: ApiReading) -> ApiReading:
    return ApiReading(
        max(0, after.requests - before.requests),
        max(0.0, after.seconds - before.seconds),
        max(0.0, after.loop_seconds - before.loop_seconds),
        max(0, after.request_bytes - before.request_bytes),
        max(0, after.response_bytes - before.response_bytes),
    )


def _grown(before: Mapping[Key, float], after: Mapping[Key, float]) -> dict[Key, float]:
    return {key: value - before.get(key, 0.0) for key, value in after.items() if value > before.get(key, 0.0)}

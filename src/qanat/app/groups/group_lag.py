"""Lag of consumer groups, in records and in time."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from qanat.connection.cluster import Cluster
from qanat.connection.committed import Offsets
from qanat.connection.deadline import Deadline
from qanat.connection.fetching import FetchLimits, fetch
from qanat.connection.offsets import EARLIEST, LATEST, by_leader, list_offsets
from qanat.model.ids import TopicPartition

_ONE_BATCH = FetchLimits(max_wait_ms=0, max_bytes=64 * 1024 * 1024, partition_bytes=1)


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag of a group in one partition; `committed` is None where it has committed nothing."""

    at: TopicPartition
    committed: int | None
    end: int
    age_ms: int | None = None
    """Age of the first record that the group has not read; None where it is unknown."""
    left: int | None = None
    """Records that a share group has not finished, which need not be all that follow."""

    @property
    def records(self) -> int | None:
        if self.left is not None:
            return self.left
        return None if self.committed is None else max(0, self.end - self.committed)


async def lags(cluster: Cluster, offsets: Offsets, also: set[TopicPartition], deadline: Deadline) -> list[Lag]:
    """The lag of every partition that has a commit or an assignment; skips deleted topics."""
    every = sorted({*offsets, *also})
    ends: dict[TopicPartition, int] = {}
    existing = {topic.name for topic in (await cluster.metadata(None, deadline)).topics}
    for topic in dict.fromkeys(at.topic for at in every if at.topic in existing):
        view = await cluster.topic(topic, deadline)
        wanted = {at.partition: LATEST for at in every if at.topic == topic and at.partition in view.leaders}
        for partition, found in (await list_offsets(cluster, topic, wanted, deadline)).items():
            ends[TopicPartition(topic, partition)] = found.offset
    every_lag = [Lag(at, offsets.get(at), ends[at]) for at in every if at in ends]
    ages = await _ages_ms(cluster, [lag for lag in every_lag if lag.records], deadline)
    return [replace(lag, age_ms=ages.get(lag.at, 0 if lag.records == 0 else None)) for lag in every_lag]


async def _ages_ms(cluster: Cluster, behind: list[Lag], deadline: Deadline) -> dict[TopicPartition, int]:
    """The age of the first unread record of each partition, or of the first record that is left."""
    now_ms = time.time_ns() // 1_000_000
    ages: dict[TopicPartition, int] = {}
    for topic in dict.fromkeys(lag.at.topic for lag in behind):
        view = await cluster.topic(topic, deadline)
        wanted = {lag.at.partition: lag.committed or 0 for lag in behind if lag.at.topic == topic}
        first = await list_offsets(cluster, topic, dict.fromkeys(wanted, EARLIEST), deadline)
        for leader, partitions in by_leader(view, wanted).items():
            link = await cluster.node_link(leader, deadline)
            starts = {at: max(wanted[at], first[at].offset) for at in partitions}
            for some in _by_tens(starts):
                for one in await fetch(link, topic, some, _ONE_BATCH, deadline):
                    if one.records and one.records[0].timestamp >= 0:
                        at = TopicPartition(topic, one.partition)
                        ages[at] = max(0, now_ms - one.records[0].timestamp)
    return ages


def _by_tens(starts: dict[int, int]) -> Iterator[dict[int, int]]:
    """Chunks of ten partitions: a broker answers a fetch with whole batches, which must fit into memory."""
    rest = iter(starts.items())
    while some := dict(itertools.islice(rest, 10)):
        yield some

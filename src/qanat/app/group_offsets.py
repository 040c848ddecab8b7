"""What a consumer group has read: committed offsets, lag, and new offsets for it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.faults import check
from qanat.connection.fetching import FetchLimits, fetch
from qanat.connection.offsets import EARLIEST, LATEST, by_leader, list_offsets
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from qanat.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from qanat.wire.kafka.registry import ApiKey

_ONE_BATCH = FetchLimits(max_wait_ms=0, max_bytes=64 * 1024 * 1024, partition_bytes=1)

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a group is behind in one partition; None where it has committed nothing."""

    at: TopicPartition
    committed: int | None
    end: int
    age_ms: int | None = None
    """How old the first record is that the group has not read; None where it is not known."""

    @property
    def records(self) -> int | None:
        return None if self.committed is None else max(0, self.end - self.committed)


async def committed_offsets(cluster: Cluster, group: str, deadline: Deadline) -> dict[TopicPartition, int]:
    """Everything that a group has committed."""

    async def attempt() -> dict[TopicPartition, int]:
        link = await cluster.coordinator_link(group, deadline)
        request = OffsetFetchRequest(group_id=group, topics=None, groups=[OffsetFetchRequestGroup(group, topics=None)])
        response: OffsetFetchResponse = await link.call(ApiKey.OFFSET_FETCH, request, deadline)
        # Version 8 and later answer for several groups; before, there was one.
        answer = response.groups[0] if response.groups else response
        check(f"offsets of group {group}", answer.error_code)
        found: dict[TopicPartition, int] = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                check(f"offsets of group {group} in {topic.name}", partition.error_code)
                if partition.committed_offset >= 0:
                    found[TopicPartition(topic.name, partition.partition_index)] = partition.committed_offset
        return dict(sorted(found.items()))

    return await cluster.persist(attempt, deadline)


async def commit_offsets(cluster: Cluster, group: str, offsets: Offsets, deadline: Deadline) -> None:
    """Commit for a group from outside; brokers refuse it while the group has members."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for at, offset in offsets.items():
        topics.setdefault(at.topic, []).append(OffsetCommitRequestPartition(at.partition, offset))
    request = OffsetCommitRequest(
        group, topics=[OffsetCommitRequestTopic(name, partitions=parts) for name, parts in topics.items()]
    )

    async def attempt() -> None:
        link = await cluster.coordinator_link(group, deadline)
        response: OffsetCommitResponse = await link.call(ApiKey.OFFSET_COMMIT, request, deadline)
        for topic in response.topics:
            for partition in topic.partitions:
                check(f"group {group} cannot commit to {topic.name}", partition.error_code, _hint(partition.error_code))

    await cluster.persist(attempt, deadline)


def _hint(code: int) -> str | None:
    from qanat.model.error_codes import ErrorCode

    members = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS)
    return "it has members; stop its consumers first" if code in members else None


async def lags(cluster: Cluster, offsets: Offsets, also: set[TopicPartition], deadline: Deadline) -> list[Lag]:
    """The lag of every partition that was committed or is assigned; topics that are gone are left out."""
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
    """The age of the first unread record of each; where records were removed, of the first that is left."""
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
    """A broker answers a fetch with whole batches: not those of all partitions at once."""
    rest = iter(starts.items())
    while some := dict(itertools.islice(rest, 10)):
        yield some

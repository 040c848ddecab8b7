"""A consumer group's committed offsets, read and changed from outside the group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from qanat.connection.cluster import Cluster
from qanat.connection.consuming.group_commits import CommittedOffset
from qanat.connection.deadline import Deadline
from qanat.connection.faults import check
from qanat.model.error_codes import ErrorCode
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
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from qanat.wire.kafka.registry import ApiKey

Offsets = Mapping[TopicPartition, int]


async def committed_offsets(
    cluster: Cluster,
    group: str,
    deadline: Deadline,
    *,
    only: Iterable[TopicPartition] | None = None,
    is_stable: bool = False,
) -> dict[TopicPartition, int]:
    """The committed offsets of a group, of all or of some partitions; `is_stable` waits for open transactions."""
    found = await committed_positions(cluster, group, deadline, only=only, is_stable=is_stable)
    return {at: one.offset for at, one in found.items()}


async def committed_positions(
    cluster: Cluster,
    group: str,
    deadline: Deadline,
    *,
    only: Iterable[TopicPartition] | None = None,
    is_stable: bool = False,
) -> dict[TopicPartition, CommittedOffset]:
    """The same with leader epochs and metadata."""
    request = _fetch_request(group, only, is_stable)

    async def attempt() -> dict[TopicPartition, CommittedOffset]:
        link = await cluster.coordinator_link(group, deadline)
        response: OffsetFetchResponse = await link.call(ApiKey.OFFSET_FETCH, request, deadline)
        # Version 8 and later answer for several groups; before, there was one.
        answer = response.groups[0] if response.groups else response
        check(f"offsets of group {group}", answer.error_code)
        found: dict[TopicPartition, CommittedOffset] = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                check(f"offsets of group {group} in {topic.name}", partition.error_code)
                if partition.committed_offset >= 0:
                    found[TopicPartition(topic.name, partition.partition_index)] = CommittedOffset(
                        partition.committed_offset, partition.committed_leader_epoch, partition.metadata or ""
                    )
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


def _fetch_request(group: str, only: Iterable[TopicPartition] | None, is_stable: bool) -> OffsetFetchRequest:
    if only is None:
        one_group = OffsetFetchRequestGroup(group, topics=None)
        return OffsetFetchRequest(group_id=group, topics=None, groups=[one_group], require_stable=is_stable)
    numbers: dict[str, list[int]] = {}
    for at in only:
        numbers.setdefault(at.topic, []).append(at.partition)
    topics = [OffsetFetchRequestTopics(name, partition_indexes=some) for name, some in numbers.items()]
    return OffsetFetchRequest(
        group_id=group,
        topics=[OffsetFetchRequestTopic(name, some) for name, some in numbers.items()],
        groups=[OffsetFetchRequestGroup(group, topics=topics)],
        require_stable=is_stable,
    )


def _hint(code: int) -> str | None:
    members = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS)
    return "it has members; stop its consumers first" if code in members else None

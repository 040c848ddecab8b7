"""First and end offsets of partitions, and offsets by time: ListOffsets, sent to each partition's leader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from qanat.connection.cluster import Cluster, TopicLeaders
from qanat.connection.deadline import Deadline
from qanat.connection.faults import check, refused
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from qanat.wire.kafka.registry import ApiKey

LATEST = -1
EARLIEST = -2


class Found(NamedTuple):
    """An offset and its record's timestamp; offset -1 where no record is that late."""

    offset: int
    timestamp: int
    epoch: int = -1
    """The leader epoch of the record; with `LATEST`, of the record before."""


async def list_offsets(
    cluster: Cluster, topic: str, moments: Mapping[int, int], deadline: Deadline, *, is_committed_only: bool = False
) -> dict[int, Found]:
    """The first offset at or after a time in milliseconds, or `EARLIEST` or `LATEST`, for each given partition.

    For readers of committed records, the latest is where the first open transaction begins.
    """

    async def attempt() -> dict[int, Found]:
        view = await cluster.topic(topic, deadline, may_lack_leaders=True)
        for partition in moments:
            if view.leaders.get(partition, 0) < 0:
                raise refused(f"partition {partition} of topic {topic}", ErrorCode.LEADER_NOT_AVAILABLE)
        found: dict[int, Found] = {}
        for leader, partitions in by_leader(view, moments).items():
            link = await cluster.node_link(leader, deadline)
            asked = {partition: moments[partition] for partition in partitions}
            request = _request(topic, asked, deadline, is_committed_only)
            response: ListOffsetsResponse = await link.call(ApiKey.LIST_OFFSETS, request, deadline)
            for answer in response.topics[0].partitions:
                check(f"offsets of {topic} partition {answer.partition_index}", answer.error_code)
                found[answer.partition_index] = Found(answer.offset, answer.timestamp, answer.leader_epoch)
        return dict(sorted(found.items()))

    return await cluster.persist(attempt, deadline)


async def list_bounds(
    cluster: Cluster, view: TopicLeaders, deadline: Deadline, *, is_committed_only: bool = False
) -> dict[int, tuple[int, int]]:
    """First offset and end of every partition of a topic, the end as in `list_offsets`."""
    first = await list_offsets(cluster, view.name, dict.fromkeys(view.leaders, EARLIEST), deadline)
    latest = dict.fromkeys(view.leaders, LATEST)
    end = await list_offsets(cluster, view.name, latest, deadline, is_committed_only=is_committed_only)
    return {partition: (first[partition].offset, end[partition].offset) for partition in view.leaders}


def by_leader(view: TopicLeaders, partitions: Mapping[int, object]) -> dict[int, list[int]]:
    """Partitions by their leader."""
    grouped: dict[int, list[int]] = {}
    for partition in partitions:
        grouped.setdefault(view.leaders[partition], []).append(partition)
    return grouped


def _request(topic: str, moments: Mapping[int, int], deadline: Deadline, is_committed_only: bool) -> ListOffsetsRequest:
    partitions = [ListOffsetsPartition(partition, timestamp=moment) for partition, moment in moments.items()]
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(is_committed_only),
        topics=[ListOffsetsTopic(topic, partitions)],
        timeout_ms=max(1, deadline.left_ms),
    )

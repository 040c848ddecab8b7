"""Positions of share groups, read and changed from outside the group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.faults import check
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages import alter_share_group_offsets as altering
from qanat.wire.kafka.messages import delete_share_group_offsets as deleting
from qanat.wire.kafka.messages import describe_share_group_offsets as describing
from qanat.wire.kafka.registry import ApiKey


class Standing(NamedTuple):
    """The position of a share group in a partition; None for what is not known, or not yet."""

    start_offset: int | None
    lag: int | None
    """Records that it has not finished yet."""


async def share_standings(cluster: Cluster, group: str, deadline: Deadline) -> dict[TopicPartition, Standing]:
    """The positions of a share group, in every partition that it has read."""
    request = describing.DescribeShareGroupOffsetsRequest(
        [describing.DescribeShareGroupOffsetsRequestGroup(group, None)]
    )

    async def attempt() -> dict[TopicPartition, Standing]:
        link = await cluster.coordinator_link(group, deadline)
        response: describing.DescribeShareGroupOffsetsResponse = await link.call(
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, request, deadline
        )
        (answer,) = response.groups
        check(f"offsets of share group {group}", answer.error_code, answer.error_message)
        found: dict[TopicPartition, Standing] = {}
        for topic in answer.topics:
            for row in topic.partitions:
                check(f"offsets of share group {group} in {topic.topic_name}", row.error_code, row.error_message)
                at = TopicPartition(topic.topic_name, row.partition_index)
                found[at] = Standing(_known(row.start_offset), _known(row.lag))
        return dict(sorted(found.items()))

    return await cluster.persist(attempt, deadline)


async def move_share_group(
    cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int], deadline: Deadline
) -> None:
    """Reset a share group without members to these offsets."""
    topics: dict[str, list[altering.AlterShareGroupOffsetsRequestPartition]] = {}
    for at, offset in offsets.items():
        row = altering.AlterShareGroupOffsetsRequestPartition(at.partition, offset)
        topics.setdefault(at.topic, []).append(row)
    rows = [altering.AlterShareGroupOffsetsRequestTopic(*one) for one in topics.items()]
    request = altering.AlterShareGroupOffsetsRequest(group, rows)

    async def attempt() -> None:
        link = await cluster.coordinator_link(group, deadline)
        response: altering.AlterShareGroupOffsetsResponse = await link.call(
            ApiKey.ALTER_SHARE_GROUP_OFFSETS, request, deadline
        )
        check(f"share group {group} cannot be moved", response.error_code, _hint(response.error_code))
        for topic in response.responses:
            for row in topic.partitions:
                what = f"share group {group} cannot be moved in {topic.topic_name}-{row.partition_index}"
                check(what, row.error_code, row.error_message)

    await cluster.persist(attempt, deadline)


async def forget_topics(cluster: Cluster, group: str, topics: Iterable[str], deadline: Deadline) -> None:
    """Delete the state of a share group without members for these topics."""
    rows = [deleting.DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics]
    request = deleting.DeleteShareGroupOffsetsRequest(group, rows)

    async def attempt() -> None:
        link = await cluster.coordinator_link(group, deadline)
        response: deleting.DeleteShareGroupOffsetsResponse = await link.call(
            ApiKey.DELETE_SHARE_GROUP_OFFSETS, request, deadline
        )
        check(f"share group {group} cannot forget", response.error_code, _hint(response.error_code))
        for row in response.responses:
            check(f"share group {group} cannot forget {row.topic_name}", row.error_code, row.error_message)

    await cluster.persist(attempt, deadline)


def _known(number: int) -> int | None:
    return number if number >= 0 else None


def _hint(code: int) -> str | None:
    return "it has members; stop its consumers first" if code == ErrorCode.NON_EMPTY_GROUP else None

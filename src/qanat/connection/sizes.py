"""Sizes of partitions on their brokers' disks: DescribeLogDirs, sent to every broker."""

from __future__ import annotations

from collections.abc import Set

from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.faults import check
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from qanat.wire.kafka.registry import ApiKey


async def partition_bytes(
    cluster: Cluster, partitions: Set[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, int]:
    """The size of each partition's log, of the largest replica; partitions without one are left out."""
    topics: dict[str, list[int]] = {}
    for at in sorted(partitions):
        topics.setdefault(at.topic, []).append(at.partition)
    request = DescribeLogDirsRequest([DescribableLogDirTopic(topic, numbers) for topic, numbers in topics.items()])
    sizes: dict[TopicPartition, int] = {}
    for broker in (await cluster.metadata([], deadline)).brokers:
        link = await cluster.node_link(broker.node_id, deadline)
        response: DescribeLogDirsResponse = await link.call(ApiKey.DESCRIBE_LOG_DIRS, request, deadline)
        for folder in response.results:
            check(f"sizes on broker {broker.node_id}", folder.error_code)
            for topic in folder.topics:
                for found in topic.partitions:
                    at = TopicPartition(topic.name, found.partition_index)
                    sizes[at] = max(sizes.get(at, 0), found.partition_size)
    return sizes

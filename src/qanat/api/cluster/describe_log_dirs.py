"""DescribeLogDirs (35): the data directory, its free space, and the sizes of its partitions.

v1   (older versions are not served)    v2   flexible    v3   an error code for the whole answer
v4   total and usable bytes of the volume
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from qanat.api.cluster.authorization import DENIED, needs_cluster
from qanat.api.request_context import RequestContext
from qanat.log.partition_log import PartitionLog
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_UNKNOWN = -1


def authorize(request: DescribeLogDirsRequest, access: AccessCheck) -> Verdict:
    """DESCRIBE on the cluster."""
    refused = DescribeLogDirsResponse(error_code=DENIED, results=[])
    return needs_cluster(Operation.DESCRIBE, access, refused)


def handle(request: DescribeLogDirsRequest, context: RequestContext) -> object:
    directory = context.broker.runtime.directory
    path = os.path.abspath(directory.path)
    if directory.state.failure is not None:
        return DescribeLogDirsResponse(results=[DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, path)])
    return _describe(request, path, context)


async def _describe(request: DescribeLogDirsRequest, path: str, context: RequestContext) -> DescribeLogDirsResponse:
    directory = context.broker.runtime.directory
    topics: dict[str, DescribeLogDirsTopic] = {}
    chosen = await _chosen(request.topics, directory.logs, context)
    async for at, log in context.yielder.over(chosen):
        topic = topics.setdefault(at.topic, DescribeLogDirsTopic(at.topic, []))
        size_bytes = sum(segment.size for segment in log.segments)
        topic.partitions.append(DescribeLogDirsPartition(at.partition, size_bytes))
    total_bytes, usable_bytes = _room(path)
    found = DescribeLogDirsResult(0, path, list(topics.values()), total_bytes, usable_bytes)
    return DescribeLogDirsResponse(results=[found])


async def _chosen(
    asked: list[DescribableLogDirTopic] | None, logs: dict[TopicPartition, PartitionLog], context: RequestContext
) -> list[tuple[TopicPartition, PartitionLog]]:
    """The requested partitions that this broker has; null requests all."""
    if asked is None:
        return list(logs.items())
    found: dict[TopicPartition, PartitionLog] = {}
    async for topic in context.yielder.over(asked):
        async for number in context.yielder.over(topic.partitions):
            at = TopicPartition(topic.topic, number)
            if at in logs:
                found[at] = logs[at]
    return list(found.items())


def _room(path: str) -> tuple[int, int]:
    """Total and usable bytes of the file system; unknown where the logs are in memory."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return _UNKNOWN, _UNKNOWN
    return disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize

"""OffsetForLeaderEpoch (23): the end offset of a leader epoch; a consumer detects truncation by it.

v2   the client's own epoch    v3   replica id    v4   flexible
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.broker.replicas.fetch import leader_epoch_error
from qanat.broker.replicas.partition import Partition
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import LeaderEpoch
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: OffsetForLeaderEpochRequest, access: AccessCheck) -> Verdict:
    """DESCRIBE on each topic, or CLUSTER_ACTION on the cluster."""
    is_broker = access.may_cluster(Operation.CLUSTER_ACTION)
    request.topics, denied = access.split(
        request.topics, lambda topic: is_broker or access.may_topic(Operation.DESCRIBE, topic.topic)
    )
    return access.grant_without(denied, lambda response: response.topics, _denied)


def _denied(topic: OffsetForLeaderTopic) -> OffsetForLeaderTopicResult:
    rows = [EpochEndOffset(ErrorCode.TOPIC_AUTHORIZATION_FAILED, row.partition) for row in topic.partitions]
    return OffsetForLeaderTopicResult(topic.topic, rows)


async def handle(request: OffsetForLeaderEpochRequest, context: RequestContext) -> OffsetForLeaderEpochResponse:
    broker, yielder = context.broker, context.yielder
    topics = [
        OffsetForLeaderTopicResult(
            topic.topic,
            [_end(broker.lookup.led(topic.topic, row.partition), row) async for row in yielder.over(topic.partitions)],
        )
        async for topic in yielder.over(request.topics)
    ]
    return OffsetForLeaderEpochResponse(topics=topics)


def _end(partition: Partition | ErrorCode, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    if isinstance(partition, ErrorCode):
        return EpochEndOffset(partition, asked.partition)
    if error := leader_epoch_error(asked.current_leader_epoch, partition):
        return EpochEndOffset(error, asked.partition)
    end = partition.log.end_of_epoch(LeaderEpoch(asked.leader_epoch))
    return EpochEndOffset(0, asked.partition, end.epoch, end.end_offset)

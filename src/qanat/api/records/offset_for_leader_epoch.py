"""OffsetForLeaderEpoch (23): where a leader's epoch ended; how a consumer notices that a log was cut.

v2   the asker's own epoch    v3   replica id    v4   flexible
"""

from __future__ import annotations

from qanat.api.request_context import RequestContext
from qanat.broker.replicas.partition import Partition
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import LeaderEpoch
from qanat.wire.kafka.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


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
    if 0 <= asked.current_leader_epoch != partition.leader_epoch:
        is_old = asked.current_leader_epoch < partition.leader_epoch
        code = ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
        return EpochEndOffset(code, asked.partition)
    end = partition.log.end_of_epoch(LeaderEpoch(asked.leader_epoch))
    return EpochEndOffset(0, asked.partition, end.epoch, end.end_offset)

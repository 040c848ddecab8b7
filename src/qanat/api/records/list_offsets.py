"""ListOffsets (2): the first and last offsets of a partition, and the offset at a timestamp.

v1   one offset, by timestamp    v2   isolation level    v4   leader epochs    v6   flexible
v7   -3: the record with the newest timestamp    v8   -4: the earliest local offset    v9   -5: the latest tiered one

There is no tiered storage: -4 is the log start offset and -5 is answered with "none" (-1).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.broker.replicas.fetch import leader_epoch_error
from qanat.broker.replicas.partition import Partition
from qanat.log.timestamp_lookup import newest_timestamp
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import Offset
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

LATEST, EARLIEST, NEWEST, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
_READ_COMMITTED = 1
_SINCE = {NEWEST: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}


def authorize(request: ListOffsetsRequest, access: AccessCheck) -> Verdict:
    """DESCRIBE on each topic."""
    request.topics, denied = access.split(
        request.topics, lambda topic: access.may_topic(Operation.DESCRIBE, topic.name)
    )
    return access.grant_without(denied, lambda response: response.topics, _denied)


def _denied(topic: ListOffsetsTopic) -> ListOffsetsTopicResponse:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    rows = [ListOffsetsPartitionResponse(row.partition_index, code) for row in topic.partitions]
    return ListOffsetsTopicResponse(topic.name, rows)


def handle(request: ListOffsetsRequest, context: RequestContext) -> object:
    is_by_time = any(
        asked.timestamp >= 0 or asked.timestamp == NEWEST for topic in request.topics for asked in topic.partitions
    )
    answer = _answer(request, context)
    return context.broker.park(answer) if is_by_time else answer


async def _answer(request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    is_committed = request.isolation_level == _READ_COMMITTED
    topics: list[ListOffsetsTopicResponse] = []
    times: Counter[tuple[str, int]] = Counter()
    async for topic in context.yielder.over(request.topics):
        async for piece in context.yielder.pieces(topic.partitions):
            times.update((topic.name, asked.partition_index) for asked in piece)
    async for topic in context.yielder.over(request.topics):
        answer = ListOffsetsTopicResponse(topic.name, [])
        topics.append(answer)
        rows = {one.partition_index: one for one in topic.partitions}
        async for number, asked in context.yielder.over(rows.items()):
            if times[topic.name, number] > 1:
                answer.partitions.append(ListOffsetsPartitionResponse(number, ErrorCode.INVALID_REQUEST))
            else:
                answer.partitions.append(await _one(context, topic.name, asked, is_committed=is_committed))
    return ListOffsetsResponse(topics=topics)


async def _one(
    context: RequestContext, topic: str, asked: ListOffsetsPartition, *, is_committed: bool
) -> ListOffsetsPartitionResponse:
    partition = context.broker.lookup.led(topic, asked.partition_index)
    error = _judge(partition, asked, context.version)
    if isinstance(partition, ErrorCode) or error is not ErrorCode.NONE:
        return ListOffsetsPartitionResponse(asked.partition_index, error)
    try:
        timestamp, offset = await _find(context, partition, asked.timestamp, is_committed=is_committed)
    except QanatError as fault:
        return ListOffsetsPartitionResponse(asked.partition_index, fault.code)
    before = Offset(max(offset - (asked.timestamp == LATEST), 0))
    epoch = partition.log.epochs.epoch_at(before) if offset >= 0 else -1
    return ListOffsetsPartitionResponse(asked.partition_index, 0, timestamp, offset, epoch)


def _judge(partition: Partition | ErrorCode, asked: ListOffsetsPartition, version: int) -> ErrorCode:
    if isinstance(partition, ErrorCode):
        return partition
    if error := leader_epoch_error(asked.current_leader_epoch, partition):
        return error
    if asked.timestamp < LATEST_TIERED or version < _SINCE.get(asked.timestamp, 0):
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE


async def _find(
    context: RequestContext, partition: Partition, timestamp: int, *, is_committed: bool
) -> tuple[int, int]:
    """Timestamp and offset; -1 and -1 where there is none."""
    log = partition.log
    match timestamp:
        case -1:
            # A new leader does not know yet what its predecessor showed to consumers: it must not show less.
            partition.require_high_watermark()
            return -1, partition.end_of_reading(is_committed=is_committed)
        case -2 | -4:
            return -1, log.log_start_offset
        case -5:
            return -1, -1
        case -3:
            timestamp = newest_timestamp(log)
            if timestamp < 0:
                return -1, -1
    found = await context.broker.runtime.find_timestamp(log, timestamp)
    if found is None:
        return -1, -1
    if found.offset >= partition.end_of_reading(is_committed=is_committed):
        partition.require_high_watermark()
        return -1, -1
    return found

"""DeleteRecords (21): records before an offset go; -1 stands for everything that is committed.

v0   offsets by partition    v2   flexible

The answer comes when the new start is on disk. A topic that is only compacted refuses, as Kafka's does.
"""

from __future__ import annotations

from qanat.broker.partition import Partition
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.servers.kafka.acts import carry_through, in_turns
from qanat.servers.kafka.dispatch import Context
from qanat.wire.kafka.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)

_HIGH_WATERMARK = -1
_NO_OFFSET = -1


async def handle(request: DeleteRecordsRequest, context: Context) -> DeleteRecordsResponse:
    answers = [DeleteRecordsTopicResult(topic.name, _unanswered(topic)) for topic in request.topics]

    async def delete_all() -> None:
        async for topic, answer in in_turns(zip(request.topics, answers, strict=True)):
            offsets = {asked.partition_index: asked.offset for asked in topic.partitions}
            for result in answer.partitions:
                await _delete(topic.name, offsets[result.partition_index], result, context)

    await carry_through(context.broker, delete_all(), max(request.timeout_ms, 1))
    return DeleteRecordsResponse(topics=answers)


def _unanswered(topic: DeleteRecordsTopic) -> list[DeleteRecordsPartitionResult]:
    numbers = dict.fromkeys(asked.partition_index for asked in topic.partitions)
    return [DeleteRecordsPartitionResult(number, _NO_OFFSET, ErrorCode.REQUEST_TIMED_OUT) for number in numbers]


async def _delete(topic: str, offset: int, result: DeleteRecordsPartitionResult, context: Context) -> None:
    partition = context.broker.writable_partition(topic, result.partition_index)
    result.error_code = _judge(partition, offset)
    if isinstance(partition, ErrorCode) or result.error_code:
        return
    log = partition.log
    try:
        wanted = log.high_watermark if offset == _HIGH_WATERMARK else offset
        result.low_watermark = await context.broker.runtime.delete_records(log, wanted)
    except QanatError as fault:
        result.error_code = fault.code


def _judge(partition: Partition | ErrorCode, offset: int) -> ErrorCode:
    if isinstance(partition, ErrorCode):
        return partition
    if not partition.log.settings.is_expired:
        return ErrorCode.POLICY_VIOLATION
    if not _HIGH_WATERMARK <= offset <= partition.log.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return ErrorCode.NONE

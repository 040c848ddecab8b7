"""DeleteRecords (21): records before an offset go; -1 stands for everything that is committed.

v0   offsets by partition    v2   flexible

The answer comes when the new starts are on disk, which takes one checkpoint for all of them. A topic that is only
compacted refuses, as Kafka's does.
"""

from __future__ import annotations

from qanat.broker.partition import Partition
from qanat.log.partition_log import PartitionLog
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.servers.kafka.acts import carry_through
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

Moved = tuple[PartitionLog, DeleteRecordsPartitionResult]


async def handle(request: DeleteRecordsRequest, context: Context) -> DeleteRecordsResponse:
    breaths = context.breaths
    answers = [
        DeleteRecordsTopicResult(topic.name, await _unanswered(topic, context))
        async for topic in breaths.over(request.topics)
    ]

    async def delete_all() -> None:
        moved: list[Moved] = []
        async for topic, answer in breaths.over(zip(request.topics, answers, strict=True)):
            offsets = {asked.partition_index: asked.offset for asked in topic.partitions}
            async for result in breaths.over(answer.partitions):
                log = _move_start(topic.name, offsets[result.partition_index], result, context)
                if log is not None:
                    moved.append((log, result))
        await _make_durable(moved, context)

    await carry_through(context.broker, delete_all(), max(request.timeout_ms, 1))
    return DeleteRecordsResponse(topics=answers)


async def _unanswered(topic: DeleteRecordsTopic, context: Context) -> list[DeleteRecordsPartitionResult]:
    numbers = dict.fromkeys([asked.partition_index async for asked in context.breaths.over(topic.partitions)])
    return [DeleteRecordsPartitionResult(number, _NO_OFFSET, ErrorCode.REQUEST_TIMED_OUT) for number in numbers]


def _move_start(topic: str, offset: int, result: DeleteRecordsPartitionResult, context: Context) -> PartitionLog | None:
    """Let the records go; returns the log if that is yet to be made durable."""
    partition = context.broker.writable_partition(topic, result.partition_index)
    error = _judge(partition, offset)
    if isinstance(partition, ErrorCode) or error:
        result.error_code = error
        return None
    log = partition.log
    try:
        log.state.require_working()
        if log.advance_log_start(log.high_watermark if offset == _HIGH_WATERMARK else offset):
            return log
        result.error_code, result.low_watermark = ErrorCode.NONE, log.log_start_offset
    except QanatError as fault:
        result.error_code = fault.code
    return None


async def _make_durable(moved: list[Moved], context: Context) -> None:
    """Write down all new starts at once: a checkpoint holds those of every partition of the directory."""
    if not moved:
        return
    error = ErrorCode.NONE
    try:
        await context.broker.runtime.checkpoint()
    except QanatError as fault:
        error = fault.code
    async for log, result in context.breaths.over(moved):
        result.error_code = error
        if not error:
            result.low_watermark = log.log_start_offset


def _judge(partition: Partition | ErrorCode, offset: int) -> ErrorCode:
    if isinstance(partition, ErrorCode):
        return partition
    settings = partition.log.settings
    if settings.is_compacted and not settings.is_expired:
        return ErrorCode.POLICY_VIOLATION
    if not _HIGH_WATERMARK <= offset <= partition.log.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return ErrorCode.NONE

"""DeleteRecords (21): delete records before an offset; -1 stands for the high watermark.

v0   offsets by partition    v2   flexible

The answer comes when the new log start offsets are on disk, which takes one checkpoint for all of them, and when every
in-sync follower starts there as well: the next leader does not bring deleted records back. A topic that is only
compacted refuses, as in Kafka; so does an outbox, whose records the parent of a tree takes (`up.target`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.admin_tasks import run_to_end
from qanat.api.request_context import RequestContext
from qanat.broker.replicas.partition import Partition
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_HIGH_WATERMARK = -1
_NO_OFFSET = -1

Moved = tuple[Partition, DeleteRecordsPartitionResult]


def authorize(request: DeleteRecordsRequest, access: AccessCheck) -> Verdict:
    """DELETE on each topic."""
    request.topics, denied = access.split(request.topics, lambda topic: access.may_topic(Operation.DELETE, topic.name))
    return access.grant_without(denied, lambda response: response.topics, _denied)


def _denied(topic: DeleteRecordsTopic) -> DeleteRecordsTopicResult:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    rows = [DeleteRecordsPartitionResult(row.partition_index, _NO_OFFSET, code) for row in topic.partitions]
    return DeleteRecordsTopicResult(topic.name, rows)


async def handle(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    yielder = context.yielder
    answers = [
        DeleteRecordsTopicResult(topic.name, await _unanswered(topic, context))
        async for topic in yielder.over(request.topics)
    ]

    async def delete_all() -> None:
        moved: list[Moved] = []
        async for topic, answer in yielder.over(zip(request.topics, answers, strict=True)):
            offsets = {asked.partition_index: asked.offset for asked in topic.partitions}
            async for result in yielder.over(answer.partitions):
                partition = _move_start(topic.name, offsets[result.partition_index], result, context)
                if partition is not None:
                    moved.append((partition, result))
        await _make_durable(moved, context)

    await run_to_end(context.broker, delete_all(), max(request.timeout_ms, 1))
    return DeleteRecordsResponse(topics=answers)


async def _unanswered(topic: DeleteRecordsTopic, context: RequestContext) -> list[DeleteRecordsPartitionResult]:
    numbers = dict.fromkeys([asked.partition_index async for asked in context.yielder.over(topic.partitions)])
    return [DeleteRecordsPartitionResult(number, _NO_OFFSET, ErrorCode.REQUEST_TIMED_OUT) for number in numbers]


def _move_start(
    topic: str, offset: int, result: DeleteRecordsPartitionResult, context: RequestContext
) -> Partition | None:
    """Advance the log start offset; returns the partition if that is not durable yet."""
    partition = context.broker.lookup.writable(topic, result.partition_index)
    error = _judge(partition, offset)
    if isinstance(partition, ErrorCode) or error:
        result.error_code = error
        return None
    log = partition.log
    try:
        log.state.require_working()
        if log.advance_log_start(log.high_watermark if offset == _HIGH_WATERMARK else offset):
            return partition
        result.error_code, result.low_watermark = ErrorCode.NONE, log.log_start_offset
    except QanatError as fault:
        result.error_code = fault.code
    return None


async def _make_durable(moved: list[Moved], context: RequestContext) -> None:
    """Write all new start offsets at once: a checkpoint holds those of every partition of the directory."""
    if not moved:
        return
    error = ErrorCode.NONE
    try:
        await context.broker.runtime.checkpoint()
    except QanatError as fault:
        error = fault.code
    async for partition, result in context.yielder.over(moved):
        if error:
            result.error_code = error
            continue
        start = partition.log.log_start_offset
        try:
            if (started := partition.when_started(start)) is not None:
                await started
        except QanatError as fault:
            result.error_code = fault.code
        else:
            result.error_code, result.low_watermark = ErrorCode.NONE, start


def _judge(partition: Partition | ErrorCode, offset: int) -> ErrorCode:
    if isinstance(partition, ErrorCode):
        return partition
    settings = partition.log.settings
    if partition.outbox is not None:
        return ErrorCode.POLICY_VIOLATION  # Records go as the parent takes them.
    if settings.is_compacted and not settings.is_expired:
        return ErrorCode.POLICY_VIOLATION
    if not partition.knows_high_watermark and not 0 <= offset <= partition.log.high_watermark:
        # A new leader does not know all committed records yet: it would delete too few, or refuse a valid offset.
        return ErrorCode.OFFSET_NOT_AVAILABLE
    if not _HIGH_WATERMARK <= offset <= partition.log.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return ErrorCode.NONE

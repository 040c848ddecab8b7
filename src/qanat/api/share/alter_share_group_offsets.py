"""AlterShareGroupOffsets (91): let a share group without members begin anew at other offsets (KIP-932).

v0   the only one

A group that does not exist yet is created, without members: offsets can be set before the first consumer joins.

Deviation: an offset outside the log is refused. Kafka 4.1.0 answers without rows and changes nothing.
"""

from __future__ import annotations

from qanat.api.request_context import RequestContext
from qanat.broker.share.administration import Moved
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.layouts import ZERO_UUID
from qanat.wire.kafka.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)

_MESSAGES = {
    ErrorCode.GROUP_ID_NOT_FOUND: "Group {} is not a share group.",
    ErrorCode.NON_EMPTY_GROUP: "Group {} has members; stop them first.",
    ErrorCode.INVALID_GROUP_ID: "The group's id must not be empty.",
}


def handle(request: AlterShareGroupOffsetsRequest, context: RequestContext) -> object:
    return context.broker.park(_alter(request, context))


async def _alter(request: AlterShareGroupOffsetsRequest, context: RequestContext) -> AlterShareGroupOffsetsResponse:
    error = await refusal(request.group_id, context, may_be_new=True)
    if error is not ErrorCode.NONE:
        return AlterShareGroupOffsetsResponse(error_code=error, error_message=told(error, request.group_id))
    return AlterShareGroupOffsetsResponse(
        responses=[await _topic(request.group_id, one, context) async for one in context.yielder.over(request.topics)]
    )


async def refusal(group_id: str, context: RequestContext, *, may_be_new: bool = False) -> ErrorCode:
    """Why nothing can be done to a group: it is none of ours, or has members."""
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    found = await context.broker.share_administration.topics(group_id, must_be_empty=True, may_be_new=may_be_new)
    return found.error


def told(error: ErrorCode, group_id: str) -> str | None:
    return _MESSAGES[error].format(group_id) if error in _MESSAGES else None


async def _topic(
    group_id: str, topic: AlterShareGroupOffsetsRequestTopic, context: RequestContext
) -> AlterShareGroupOffsetsResponseTopic:
    known = context.broker.metadata.image.topics.get(topic.topic_name)
    offsets = {row.partition_index: row.start_offset for row in topic.partitions}
    moved = await context.broker.share_administration.move(group_id, topic.topic_name, offsets)
    topic_id = ZERO_UUID if known is None else known.identity.value.bytes
    return AlterShareGroupOffsetsResponseTopic(topic.topic_name, topic_id, [_partition(one) for one in moved])


def _partition(one: Moved) -> AlterShareGroupOffsetsResponsePartition:
    return AlterShareGroupOffsetsResponsePartition(one.partition, one.error, one.message)

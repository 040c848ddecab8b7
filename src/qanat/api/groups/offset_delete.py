"""OffsetDelete (47): delete a group's offsets of topics that no member subscribes to. Version 0 only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.broker.coordinators.group_coordinator import Answer
from qanat.groups.replies import DeleteOffsetsReply
from qanat.groups.requests import DeleteOffsets
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: OffsetDeleteRequest, access: AccessCheck) -> Verdict:
    """DELETE on the group, READ on each topic."""
    if not access.may_group(Operation.DELETE, request.group_id):
        return access.deny(OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    request.topics, denied = access.split(request.topics, lambda topic: access.may_topic(Operation.READ, topic.name))
    return access.grant_without(denied, lambda response: response.topics, _denied, unless_error=True)


def _denied(topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    rows = [OffsetDeleteResponsePartition(row.partition_index, code) for row in topic.partitions]
    return OffsetDeleteResponseTopic(topic.name, rows)


def handle(request: OffsetDeleteRequest, context: RequestContext) -> object:
    return context.broker.park(_delete(request, context))


async def _delete(request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
    yielder = context.yielder
    partitions = [
        TopicPartition(topic.name, one.partition_index)
        async for topic in yielder.over(request.topics)
        async for one in yielder.over(topic.partitions)
    ]
    pieces = [piece async for piece in yielder.pieces(partitions)] or [()]
    begun = [await _begin(request.group_id, tuple(piece), context) async for piece in yielder.over(pieces)]
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    for answer in begun:
        reply = await answer
        assert isinstance(reply, DeleteOffsetsReply)
        if reply.error:
            return OffsetDeleteResponse(error_code=reply.error)
        for one in reply.partitions:
            topic = topics.setdefault(one.topic, OffsetDeleteResponseTopic(one.topic, []))
            topic.partitions.append(OffsetDeleteResponsePartition(one.partition, one.error))
    return OffsetDeleteResponse(topics=list(topics.values()))


async def _begin(group_id: str, partitions: tuple[TopicPartition, ...], context: RequestContext) -> Answer:
    return await context.broker.groups.begin(group_id, DeleteOffsets(group_id, partitions))

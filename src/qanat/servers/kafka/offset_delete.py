"""OffsetDelete (47): forget positions of a group in topics that nobody in it reads any more. Version 0 only."""

from __future__ import annotations

from qanat.groups.replies import DeleteOffsetsReply
from qanat.groups.requests import DeleteOffsets
from qanat.model.ids import TopicPartition
from qanat.servers.kafka.dispatch import Context
from qanat.wire.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(request: OffsetDeleteRequest, context: Context) -> object:
    return context.broker.park(_delete(request, context))


async def _delete(request: OffsetDeleteRequest, context: Context) -> OffsetDeleteResponse:
    partitions = tuple(
        TopicPartition(topic.name, one.partition_index) for topic in request.topics for one in topic.partitions
    )
    reply = await context.broker.groups.ask(request.group_id, DeleteOffsets(request.group_id, partitions))
    assert isinstance(reply, DeleteOffsetsReply)
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    for one in reply.partitions:
        topic = topics.setdefault(one.topic, OffsetDeleteResponseTopic(one.topic, []))
        topic.partitions.append(OffsetDeleteResponsePartition(one.partition, one.error))
    return OffsetDeleteResponse(error_code=reply.error, topics=list(topics.values()))

"""ConsumerGroupHeartbeat (68): a member of the new protocol joins, is alive, learns what to read, leaves (KIP-848).

v1   subscriptions by regular expression; members draw their ids themselves (KIP-1082)

Deviation: an expression's topics are found at once, where Kafka finds them some heartbeats later, and internal topics
never match. Where an authoriser decides, an expression stands for topics that all members who use it may see.
"""

from __future__ import annotations

import uuid

from qanat.api.request_context import RequestContext
from qanat.groups.consumer.records import Partitions, TopicIdPartition
from qanat.groups.replies import ConsumerHeartbeatReply
from qanat.groups.requests import ConsumerHeartbeat
from qanat.wire.kafka.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
    ResponseTopicPartitions,
)

_OWN_ID_FROM = 1


def handle(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> object:
    return context.broker.park(_beat(request, context))


async def _beat(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> ConsumerGroupHeartbeatResponse:
    names = request.subscribed_topic_names
    asked = ConsumerHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        unique=str(uuid.uuid4()),
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=None if names is None else tuple(names),
        expression=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=await _owned(request.topic_partitions, context),
        client_id=context.header.client_id or "",
        client_host=f"/{context.caller.host}",
        brings_its_id=context.version >= _OWN_ID_FROM,
        visibility=context.visibility,
    )
    reply = await context.broker.groups.ask(request.group_id, asked)
    assert isinstance(reply, ConsumerHeartbeatReply)
    return ConsumerGroupHeartbeatResponse(
        error_code=reply.error,
        error_message=reply.message,
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=None if reply.assignment is None else Assignment(await _rows(reply.assignment, context)),
    )


async def _owned(rows: list[RequestTopicPartitions] | None, context: RequestContext) -> Partitions | None:
    if rows is None:
        return None
    yielder = context.yielder
    found = [
        TopicIdPartition(bytes(row.topic_id), number)
        async for row in yielder.over(rows)
        async for number in yielder.over(row.partitions)
    ]
    return tuple(found)


async def _rows(partitions: Partitions, context: RequestContext) -> list[ResponseTopicPartitions]:
    rows: dict[bytes, list[int]] = {}
    async for at in context.yielder.over(partitions):
        rows.setdefault(at.topic_id, []).append(at.partition)
    return [ResponseTopicPartitions(*row) for row in rows.items()]

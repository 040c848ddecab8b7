"""ConsumerGroupHeartbeat (68): a member of the new protocol joins, stays, gets its assignment, leaves (KIP-848).

v1   subscriptions by regular expression; members choose their own ids (KIP-1082)

Deviation: an expression is resolved at once, where Kafka resolves it some heartbeats later, and never matches internal
topics. With an authorizer, an expression matches the topics that all members who use it may see.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from qanat.api.groups.authorization import joins_group
from qanat.api.groups.heartbeat_response import beat
from qanat.api.request_context import RequestContext
from qanat.groups.consumer.records import Partitions, TopicIdPartition
from qanat.groups.requests import ConsumerHeartbeat
from qanat.wire.kafka.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
    ResponseTopicPartitions,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_OWN_ID_FROM = 1


def authorize(request: ConsumerGroupHeartbeatRequest, access: AccessCheck) -> Verdict:
    """READ on the group, DESCRIBE on the topics that it names; an expression matches only topics that are visible."""
    return joins_group(request.group_id, request.subscribed_topic_names, access, ConsumerGroupHeartbeatResponse)


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
    return await beat(asked, context, ConsumerGroupHeartbeatResponse, Assignment, ResponseTopicPartitions)


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

"""ShareGroupHeartbeat (76): a member of a share group joins, is alive, learns what to work on, leaves (KIP-932).

v1   the first that Kafka supports

Deviation: partitions are assigned with the first heartbeat, where Kafka prepares their state first, and a member that
was fenced may join again at once.
"""

from __future__ import annotations

from qanat.api.request_context import RequestContext
from qanat.groups.consumer.records import Partitions
from qanat.groups.replies import ShareHeartbeatReply
from qanat.groups.requests import ShareHeartbeat
from qanat.wire.kafka.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)


def handle(request: ShareGroupHeartbeatRequest, context: RequestContext) -> object:
    return context.broker.park(_beat(request, context))


async def _beat(request: ShareGroupHeartbeatRequest, context: RequestContext) -> ShareGroupHeartbeatResponse:
    names = request.subscribed_topic_names
    asked = ShareHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        rack_id=request.rack_id,
        topics=None if names is None else tuple(names),
        client_id=context.header.client_id or "",
        client_host=f"/{context.caller.host}",
    )
    reply = await context.broker.groups.ask(request.group_id, asked)
    assert isinstance(reply, ShareHeartbeatReply)
    return ShareGroupHeartbeatResponse(
        error_code=reply.error,
        error_message=reply.message,
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=None if reply.assignment is None else Assignment(await _rows(reply.assignment, context)),
    )


async def _rows(partitions: Partitions, context: RequestContext) -> list[TopicPartitions]:
    rows: dict[bytes, list[int]] = {}
    async for at in context.yielder.over(partitions):
        rows.setdefault(at.topic_id, []).append(at.partition)
    return [TopicPartitions(*row) for row in rows.items()]

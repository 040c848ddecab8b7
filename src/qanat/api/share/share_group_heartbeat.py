"""ShareGroupHeartbeat (76): a member of a share group joins, stays, gets its assignment, leaves (KIP-932).

v1   the first that Kafka supports

Deviation: partitions are assigned with the first heartbeat, where Kafka first prepares their state, and a fenced member
may join again at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.groups.authorization import joins_group
from qanat.api.groups.heartbeat_response import beat
from qanat.api.request_context import RequestContext
from qanat.groups.requests import ShareHeartbeat
from qanat.wire.kafka.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: ShareGroupHeartbeatRequest, access: AccessCheck) -> Verdict:
    """READ on the group, DESCRIBE on the topics that it names."""
    return joins_group(request.group_id, request.subscribed_topic_names, access, ShareGroupHeartbeatResponse)


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
    return await beat(asked, context, ShareGroupHeartbeatResponse, Assignment, TopicPartitions)

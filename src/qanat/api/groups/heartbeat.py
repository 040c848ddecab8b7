"""Heartbeat (12): a member is alive; the answer says when to rejoin.

v1   throttle time    v3   static members    v4   flexible
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.groups.authorization import reads_group
from qanat.api.request_context import RequestContext
from qanat.groups.replies import HeartbeatReply
from qanat.groups.requests import Heartbeat
from qanat.wire.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: HeartbeatRequest, access: AccessCheck) -> Verdict:
    """READ on the group."""
    return reads_group(request.group_id, access, HeartbeatResponse)


def handle(request: HeartbeatRequest, context: RequestContext) -> object:
    return context.broker.park(_beat(request, context))


async def _beat(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    asked = Heartbeat(request.group_id, request.member_id, request.generation_id, request.group_instance_id)
    reply = await context.broker.groups.ask(request.group_id, asked)
    assert isinstance(reply, HeartbeatReply)
    return HeartbeatResponse(error_code=reply.error)

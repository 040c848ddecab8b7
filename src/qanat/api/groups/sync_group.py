"""SyncGroup (14): a member's assignment, once the leader has sent it.

v1   throttle time    v3   static members    v4   flexible    v5   protocol type and name are checked
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.groups.authorization import reads_group
from qanat.api.request_context import RequestContext
from qanat.groups.replies import SyncReply
from qanat.groups.requests import SyncGroup
from qanat.wire.kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: SyncGroupRequest, access: AccessCheck) -> Verdict:
    """READ on the group."""
    return reads_group(request.group_id, access, SyncGroupResponse)


def handle(request: SyncGroupRequest, context: RequestContext) -> object:
    return context.broker.park(_sync(request, context))


async def _sync(request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse:
    rows = context.yielder.over(request.assignments)
    assignments = [(one.member_id, bytes(one.assignment)) async for one in rows]
    asked = SyncGroup(
        group_id=request.group_id,
        member_id=request.member_id,
        generation_id=request.generation_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=tuple(assignments),
    )
    reply = await context.broker.groups.ask(request.group_id, asked)
    assert isinstance(reply, SyncReply)
    return SyncGroupResponse(
        error_code=reply.error,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        assignment=reply.assignment,
    )

"""JoinGroup (11): join a group's next generation; answered when the rebalance is complete.

v1   rebalance timeout    v4   a new member first gets its id (KIP-394)    v5   static members (KIP-345)
v6   flexible    v7   protocol type    v8   reason    v9   the leader may have to skip the assignment (KIP-814)
"""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING

from qanat.api.groups.authorization import reads_group
from qanat.api.request_context import RequestContext
from qanat.groups.replies import JoinReply
from qanat.groups.requests import JoinGroup, Protocol
from qanat.wire.kafka.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_MEMBER_ID_FROM = 4
_PROTOCOL_TYPE_FROM = 7
_SKIP_FROM = 9


def authorize(request: JoinGroupRequest, access: AccessCheck) -> Verdict:
    """READ on the group."""
    name = None if access.version >= _PROTOCOL_TYPE_FROM else ""
    return reads_group(request.group_id, access, partial(JoinGroupResponse, protocol_name=name))


def handle(request: JoinGroupRequest, context: RequestContext) -> object:
    return context.broker.park(_join(request, context))


async def _join(request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
    rows = context.yielder.over(request.protocols)
    protocols = [Protocol(one.name, bytes(one.metadata)) async for one in rows]
    asked = JoinGroup(
        group_id=request.group_id,
        member_id=request.member_id,
        protocol_type=request.protocol_type,
        protocols=tuple(protocols),
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        unique=str(uuid.uuid4()),
        client_id=context.header.client_id or "",
        client_host=f"/{context.caller.host}",
        instance_id=request.group_instance_id,
        needs_member_id=context.version >= _MEMBER_ID_FROM,
        may_skip_assignment=context.version >= _SKIP_FROM,
    )
    reply = await context.broker.groups.ask(request.group_id, asked)
    assert isinstance(reply, JoinReply)
    return JoinGroupResponse(
        error_code=reply.error,
        generation_id=reply.generation_id,
        protocol_type=reply.protocol_type,
        protocol_name=_protocol_name(reply, context.version),
        leader=reply.leader_id,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=[
            JoinGroupResponseMember(one.member_id, one.instance_id, one.metadata)
            async for one in context.yielder.over(reply.members)
        ],
    )


def _protocol_name(reply: JoinReply, version: int) -> str | None:
    """Null is allowed from version 7 on; before, no protocol is the empty name."""
    return reply.protocol_name if version >= _PROTOCOL_TYPE_FROM else reply.protocol_name or ""

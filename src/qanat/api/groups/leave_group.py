"""LeaveGroup (13): members leave before their sessions end.

v1   throttle time    v3   several members, static ones by instance id    v4   flexible    v5   reason

Up to version 2 there is one member, and its error is the answer's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qanat.api.groups.authorization import reads_group
from qanat.api.request_context import RequestContext
from qanat.groups.replies import LeaveReply
from qanat.groups.requests import LeaveGroup, LeavingMember
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_MANY_FROM = 3


def authorize(request: LeaveGroupRequest, access: AccessCheck) -> Verdict:
    """READ on the group."""
    return reads_group(request.group_id, access, LeaveGroupResponse)


def handle(request: LeaveGroupRequest, context: RequestContext) -> object:
    return context.broker.park(_leave(request, context))


async def _leave(request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    has_many = context.version >= _MANY_FROM
    members = (
        tuple(LeavingMember(one.member_id, one.group_instance_id, one.reason) for one in request.members)
        if has_many
        else (LeavingMember(request.member_id),)
    )
    answers: list[MemberResponse] = []
    async for piece in context.yielder.pieces(members):
        reply = await _leave_piece(request.group_id, piece, context)
        if reply.error:
            return LeaveGroupResponse(error_code=reply.error)
        answers += [MemberResponse(one.member_id, one.instance_id, one.error) for one in reply.members]
    if not members:
        return LeaveGroupResponse(error_code=(await _leave_piece(request.group_id, (), context)).error)
    error = ErrorCode.NONE if has_many else answers[0].error_code
    return LeaveGroupResponse(error_code=error, members=answers)


async def _leave_piece(group_id: str, members: Sequence[LeavingMember], context: RequestContext) -> LeaveReply:
    reply = await context.broker.groups.ask(group_id, LeaveGroup(group_id, tuple(members)))
    assert isinstance(reply, LeaveReply)
    return reply

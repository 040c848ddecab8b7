"""LeaveGroup (13): members go without waiting for their sessions to end.

v1   throttle time    v3   several members, static ones by instance id    v4   flexible    v5   reason

Up to version 2 there is one member, and its error is the answer's.
"""

from __future__ import annotations

from qanat.groups.replies import LeaveReply
from qanat.groups.requests import LeaveGroup, LeavingMember
from qanat.servers.kafka.dispatch import Context
from qanat.wire.kafka.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

_MANY_FROM = 3


def handle(request: LeaveGroupRequest, context: Context) -> object:
    return context.broker.park(_leave(request, context))


async def _leave(request: LeaveGroupRequest, context: Context) -> LeaveGroupResponse:
    has_many = context.version >= _MANY_FROM
    members = (
        tuple(LeavingMember(one.member_id, one.group_instance_id, one.reason) for one in request.members)
        if has_many
        else (LeavingMember(request.member_id),)
    )
    reply = await context.broker.groups.ask(request.group_id, LeaveGroup(request.group_id, members))
    assert isinstance(reply, LeaveReply)
    error = reply.error
    if not has_many and not error and reply.members:
        error = reply.members[0].error
    return LeaveGroupResponse(
        error_code=error,
        members=[MemberResponse(one.member_id, one.instance_id, one.error) for one in reply.members],
    )

"""DescribeGroups (15): state, protocol and members of groups.

v1   throttle time    v3   authorized operations, on request    v4   instance ids    v5   flexible
v6   an unknown group is an error; before, it is `Dead` without one (KIP-1043)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.groups.group_descriptions import authorize_descriptions, describe_each
from qanat.api.request_context import RequestContext
from qanat.groups.replies import DescribeReply
from qanat.groups.requests import DescribeGroup
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_NOT_FOUND_FROM = 6


def authorize(request: DescribeGroupsRequest, access: AccessCheck) -> Verdict:
    """DESCRIBE on each group."""
    request.groups, verdict = authorize_descriptions(
        request.groups, access, DescribedGroup, with_operations=request.include_authorized_operations
    )
    return verdict


def handle(request: DescribeGroupsRequest, context: RequestContext) -> object:
    return context.broker.park(_describe(request, context))


async def _describe(request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    async def ask(group_id: str) -> DescribeReply:
        reply = await context.broker.groups.ask(group_id, DescribeGroup(group_id))
        assert isinstance(reply, DescribeReply)
        return reply

    async def describe(reply: DescribeReply) -> DescribedGroup:
        return _described(reply, context.version)

    with_operations = request.include_authorized_operations
    groups = await describe_each(request.groups, ask, describe, context, with_operations=with_operations)
    return DescribeGroupsResponse(groups=groups)


def _described(reply: DescribeReply, version: int) -> DescribedGroup:
    error, message = reply.error, None
    if error is ErrorCode.GROUP_ID_NOT_FOUND:
        message = f"Group {reply.group_id} not found."
        if version < _NOT_FOUND_FROM:
            error, message = ErrorCode.NONE, None
    return DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=reply.group_id,
        group_state=reply.state,
        protocol_type=reply.protocol_type,
        protocol_data=reply.protocol_name,
        members=[
            DescribedGroupMember(
                one.member_id, one.instance_id, one.client_id, one.client_host, one.metadata, one.assignment
            )
            for one in reply.members
        ],
    )

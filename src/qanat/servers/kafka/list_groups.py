"""ListGroups (16): the groups that this broker coordinates.

v1   throttle time    v3   flexible    v4   filter by state, which is in the answer    v5   likewise type
"""

from __future__ import annotations

from qanat.groups.replies import ListReply
from qanat.groups.requests import ListGroups
from qanat.servers.kafka.dispatch import Context
from qanat.wire.kafka.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(request: ListGroupsRequest, context: Context) -> object:
    return context.broker.park(_list(request, context))


async def _list(request: ListGroupsRequest, context: Context) -> ListGroupsResponse:
    asked = ListGroups(tuple(request.states_filter), tuple(request.types_filter))
    replies = await context.broker.groups.ask_all(asked)
    groups = [
        ListedGroup(one.group_id, one.protocol_type, one.state, one.group_type)
        for reply in replies
        if isinstance(reply, ListReply)
        for one in reply.groups
    ]
    return ListGroupsResponse(groups=groups)

"""ListGroups (16): the groups that this broker coordinates.

v1   throttle time    v3   flexible    v4   filter by state, and the state in the answer    v5   the same for the type
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.groups.classic.states import GroupState
from qanat.groups.classic.view import CLASSIC
from qanat.groups.consumer.group import ConsumerGroupState
from qanat.groups.consumer.view import TYPE
from qanat.groups.replies import ListReply
from qanat.groups.requests import ListGroups
from qanat.groups.share.view import TYPE as SHARE
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_NAMES = {name.lower() for name in (*GroupState, *ConsumerGroupState, CLASSIC, TYPE, SHARE)}


def authorize(request: ListGroupsRequest, access: AccessCheck) -> Verdict:
    """DESCRIBE on the cluster shows all groups; other callers see the groups that they may DESCRIBE."""
    if access.may_cluster(Operation.DESCRIBE):
        return access.grant()

    def complete(response: ListGroupsResponse) -> ListGroupsResponse:
        response.groups = [one for one in response.groups if access.may_group(Operation.DESCRIBE, one.group_id)]
        return response

    return access.grant(complete)


def handle(request: ListGroupsRequest, context: RequestContext) -> object:
    return context.broker.park(_list(request, context))


async def _list(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    yielder = context.yielder
    asked = ListGroups(await _distinct(request.states_filter, yielder), await _distinct(request.types_filter, yielder))
    replies = await context.broker.groups.ask_all(asked, yielder)
    groups = [
        ListedGroup(one.group_id, one.protocol_type, one.state, one.group_type)
        async for reply in yielder.over(replies)
        if isinstance(reply, ListReply)
        async for one in yielder.over(reply.groups)
    ]
    return ListGroupsResponse(groups=groups)


async def _distinct(names: list[str], yielder: CooperativeYield) -> tuple[str, ...]:
    """A filter without duplicates and impossible names: every partition of the internal topic applies it.

    If only impossible names remain, one of them is kept: a filter that matches nothing is not the same as none.
    """
    seen = {name.strip().lower(): None async for name in yielder.over(names)}
    return tuple(name for name in seen if name in _NAMES) or tuple(seen)[:1]

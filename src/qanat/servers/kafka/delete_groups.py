"""DeleteGroups (42): remove empty groups with their offsets.

v1   nothing new    v2   flexible
"""

from __future__ import annotations

from qanat.groups.replies import DeleteGroupReply
from qanat.groups.requests import DeleteGroup
from qanat.servers.kafka.dispatch import Context
from qanat.wire.kafka.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(request: DeleteGroupsRequest, context: Context) -> object:
    return context.broker.park(_delete(request, context))


async def _delete(request: DeleteGroupsRequest, context: Context) -> DeleteGroupsResponse:
    results = []
    async for group_id in context.breaths.over(dict.fromkeys(request.groups_names)):
        reply = await context.broker.groups.ask(group_id, DeleteGroup(group_id))
        assert isinstance(reply, DeleteGroupReply)
        results.append(DeletableGroupResult(group_id, reply.error))
    return DeleteGroupsResponse(results=results)

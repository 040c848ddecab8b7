"""DeleteGroups (42): remove empty groups of any kind, with their offsets.

v1   nothing new    v2   flexible
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: DeleteGroupsRequest, access: AccessCheck) -> Verdict:
    """DELETE on each group."""
    request.groups_names, denied = access.split(
        request.groups_names, lambda group: access.may_group(Operation.DELETE, group)
    )
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    return access.grant_without(
        denied, lambda response: response.results, lambda group: DeletableGroupResult(group, code)
    )


def handle(request: DeleteGroupsRequest, context: RequestContext) -> object:
    return context.broker.park(_delete(request, context))


async def _delete(request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    results = []
    async for group_id in context.yielder.over(dict.fromkeys(request.groups_names)):
        error = await context.broker.share_administration.delete_group(group_id)
        results.append(DeletableGroupResult(group_id, error))
    return DeleteGroupsResponse(results=results)

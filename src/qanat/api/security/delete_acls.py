"""DeleteAcls (31): delete the rules that filters name, and say which they were.

v1   patterns of resources (LITERAL, PREFIXED, MATCH)    v2   flexible    v3   rules about users

The answer leaves once this broker decides without the rules; others follow as with CreateAcls.
Deviations: more than 100 rules are deleted in pieces of 100; an unknown number in a filter is answered with
INVALID_REQUEST, where Kafka closes the connection.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from qanat.api.admin_tasks import attempt, run_to_end, yielding
from qanat.api.cluster.authorization import DENIED, needs_cluster
from qanat.api.request_context import RequestContext
from qanat.api.security.acl_authorizer import authorizer_of
from qanat.broker.broker import Broker
from qanat.broker.security.acl_authorizer import AclAuthorizer
from qanat.cluster.acls import ENTRIES_MAX, decide_delete
from qanat.cluster.rejection import Rejection
from qanat.model.error_codes import ErrorCode
from qanat.security.acl_filters import AclFilter, InvalidAclError, filter_of
from qanat.security.acls import Acl
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: DeleteAclsRequest, access: AccessCheck) -> Verdict:
    """ALTER on the cluster."""
    refused = _refused(request, Rejection(DENIED, "Cluster authorization failed."))
    return needs_cluster(Operation.ALTER, access, refused)


def handle(request: DeleteAclsRequest, context: RequestContext) -> object:
    authorizer = authorizer_of(context.broker)
    if isinstance(authorizer, Rejection):
        return _refused(request, authorizer)
    return _delete(request, authorizer, context)


async def _delete(request: DeleteAclsRequest, authorizer: AclAuthorizer, context: RequestContext) -> DeleteAclsResponse:
    results: list[DeleteAclsFilterResult] = []

    async def delete_all() -> None:
        if (why := await attempt(_see_all(context.broker))) is not None:
            results.extend(_result(why, {}) for _ in request.filters)
            return
        found = [await _found(row, authorizer) for row in request.filters]
        named = list(dict.fromkeys(key for rows in found if isinstance(rows, dict) for key in rows))
        failed = await _delete_keys(context.broker, named)
        results.extend(_result(rows, failed) for rows in found)

    await run_to_end(context.broker, delete_all())
    return DeleteAclsResponse(filter_results=results)


async def _see_all(broker: Broker) -> None:
    """Catch up with the store: filters must find rules that another broker created, and the watch has yet to tell."""
    await broker.metadata.catch_up()


async def _found(row: DeleteAclsFilter, authorizer: AclAuthorizer) -> dict[str, Acl] | Rejection:
    """The rules that a filter names, by their keys."""
    wanted = _filter(row)
    if isinstance(wanted, Rejection):
        return wanted
    return {key: acl async for key, acl in yielding(list(authorizer.rules())) if wanted.matches(acl)}


async def _delete_keys(broker: Broker, named: list[str]) -> dict[str, Rejection]:
    """Delete rules; returns those that the store did not delete."""
    failed: dict[str, Rejection] = {}
    for start in range(0, len(named), ENTRIES_MAX):
        piece = named[start : start + ENTRIES_MAX]
        if decide_delete(broker.metadata.image, piece).operations:
            outcome = await attempt(broker.metadata_changes.carry_out(partial(decide_delete, named=piece)))
            if isinstance(outcome, Rejection):
                failed |= dict.fromkeys(piece, outcome)
    return failed


def _result(found: dict[str, Acl] | Rejection, failed: dict[str, Rejection]) -> DeleteAclsFilterResult:
    if isinstance(found, Rejection):
        return DeleteAclsFilterResult(found.code, found.message)
    return DeleteAclsFilterResult(
        error_message=None, matching_acls=[_row(found[key], failed.get(key)) for key in found]
    )


def _row(acl: Acl, why: Rejection | None) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        0 if why is None else why.code,
        None if why is None else why.message,
        int(acl.kind),
        acl.name,
        int(acl.pattern),
        acl.principal,
        acl.host,
        int(acl.operation),
        int(acl.permission),
    )


def _filter(row: DeleteAclsFilter) -> AclFilter | Rejection:
    try:
        return filter_of(
            row.resource_type_filter,
            row.resource_name_filter,
            row.pattern_type_filter,
            row.principal_filter,
            row.host_filter,
            row.operation,
            row.permission_type,
        )
    except InvalidAclError as fault:
        return Rejection(ErrorCode.INVALID_REQUEST, str(fault))


def _refused(request: DeleteAclsRequest, why: Rejection) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(why.code, why.message) for _ in request.filters])

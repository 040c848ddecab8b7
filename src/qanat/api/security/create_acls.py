"""CreateAcls (30): add rules to the built-in authorizer.

v1   patterns of resources (LITERAL, PREFIXED)    v2   flexible    v3   rules about users

A rule that is there already is fine. The answer leaves once this broker decides by the new rules; others follow as fast
as their watch of the metadata store, within a second in health.
Deviations: a request of more than 100 rules takes effect in pieces of 100; a principal that is not `Type:name`, and an
empty host, are refused, since such a rule would match nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.admin_tasks import attempt, run_to_end, yielding
from qanat.api.cluster.authorization import DENIED, needs_cluster
from qanat.api.request_context import RequestContext
from qanat.api.security.acl_authorizer import authorizer_of
from qanat.broker.broker import Broker
from qanat.broker.security.acl_entries import entry_of
from qanat.cluster.acls import ENTRIES_MAX, decide_create
from qanat.cluster.rejection import Rejection
from qanat.cluster.values import AclEntry
from qanat.model.error_codes import ErrorCode
from qanat.security.acl_filters import InvalidAclError, acl_of
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: CreateAclsRequest, access: AccessCheck) -> Verdict:
    """ALTER on the cluster."""
    refused = _refused(request, Rejection(DENIED, "Cluster authorization failed."))
    return needs_cluster(Operation.ALTER, access, refused)


def handle(request: CreateAclsRequest, context: RequestContext) -> object:
    authorizer = authorizer_of(context.broker)
    if isinstance(authorizer, Rejection):
        return _refused(request, authorizer)
    return _create(request, context)


async def _create(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    results: list[AclCreationResult] = []

    async def create_all() -> None:
        waiting: dict[int, AclEntry] = {}
        async for row in yielding(request.creations):
            entry = _entry(row)
            if isinstance(entry, Rejection):
                results.append(AclCreationResult(entry.code, entry.message))
                continue
            waiting[len(results)] = entry
            results.append(AclCreationResult(error_message=None))
            if len(waiting) >= ENTRIES_MAX:
                await _commit(context.broker, waiting, results)
                waiting = {}
        await _commit(context.broker, waiting, results)

    await run_to_end(context.broker, create_all())
    return CreateAclsResponse(results=results)


async def _commit(broker: Broker, waiting: dict[int, AclEntry], results: list[AclCreationResult]) -> None:
    """Commit some rules; where the store does not take them, their results say so."""
    if not waiting:
        return
    entries = list(waiting.values())
    outcome = await attempt(broker.metadata_changes.carry_out(lambda image: decide_create(image, entries)))
    if isinstance(outcome, Rejection):
        for place in waiting:
            results[place] = AclCreationResult(outcome.code, outcome.message)


def _entry(row: AclCreation) -> AclEntry | Rejection:
    try:
        acl = acl_of(
            row.resource_type,
            row.resource_name,
            row.resource_pattern_type,
            row.principal,
            row.host,
            row.operation,
            row.permission_type,
        )
    except InvalidAclError as fault:
        return Rejection(ErrorCode.INVALID_REQUEST, str(fault))
    return entry_of(acl)


def _refused(request: CreateAclsRequest, why: Rejection) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(why.code, why.message) for _ in request.creations])

"""Rules over the protocol: DescribeAcls, CreateAcls, DeleteAcls; and how commands print them."""

from __future__ import annotations

from collections.abc import Sequence

from qanat.app.terminal.listing import Row
from qanat.connection.cluster import Cluster
from qanat.connection.faults import check
from qanat.model.error_codes import ErrorCode
from qanat.security.acl_filters import AclFilter, InvalidAclError, acl_of
from qanat.security.acls import Acl
from qanat.wire.kafka.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from qanat.wire.kafka.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from qanat.wire.kafka.messages.describe_acls import AclDescription, DescribeAclsRequest, DescribeAclsResponse
from qanat.wire.kafka.registry import ApiKey

COLUMNS = ("principal", "permission", "operation", "kind", "name", "pattern", "host")
_ANY_NUMBER = 1
_ADVICE = "Start the brokers with authorizer.class.name=StandardAuthorizer."


async def described(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """The rules that a filter names, sorted."""
    request = DescribeAclsRequest(*_fields(wanted))
    response: DescribeAclsResponse = await cluster.call(ApiKey.DESCRIBE_ACLS, request, is_question=True)
    _check("cannot list ACLs", response.error_code, response.error_message)
    found = [
        _known(resource.resource_type, resource.resource_name, resource.pattern_type, one)
        for resource in response.resources
        for one in resource.acls
    ]
    return sorted((acl for acl in found if acl is not None), key=lambda acl: tuple(row_of(acl).values()))


async def create(cluster: Cluster, acls: Sequence[Acl]) -> None:
    rows = [
        AclCreation(acl.kind, acl.name, acl.pattern, acl.principal, acl.host, acl.operation, acl.permission)
        for acl in acls
    ]
    response: CreateAclsResponse = await cluster.call(ApiKey.CREATE_ACLS, CreateAclsRequest(rows))
    for acl, result in zip(acls, response.results, strict=True):
        _check(f"cannot add {acl}", result.error_code, result.error_message)


async def delete(cluster: Cluster, acls: Sequence[Acl]) -> None:
    """Delete exactly these rules."""
    rows = [
        DeleteAclsFilter(acl.kind, acl.name, acl.pattern, acl.principal, acl.host, acl.operation, acl.permission)
        for acl in acls
    ]
    response: DeleteAclsResponse = await cluster.call(ApiKey.DELETE_ACLS, DeleteAclsRequest(rows))
    for acl, result in zip(acls, response.filter_results, strict=True):
        _check(f"cannot remove {acl}", result.error_code, result.error_message)
        for one in result.matching_acls:
            _check(f"cannot remove {acl}", one.error_code, one.error_message)


def row_of(acl: Acl, **more: str) -> Row:
    return {
        "principal": acl.principal,
        "permission": acl.permission.name.lower(),
        "operation": acl.operation.name.lower(),
        "kind": acl.kind.name.lower(),
        "name": acl.name,
        "pattern": acl.pattern.name.lower(),
        "host": acl.host,
        **more,
    }


def _fields(wanted: AclFilter) -> tuple[int, str | None, int, str | None, str | None, int, int]:
    return (
        _ANY_NUMBER if wanted.kind is None else wanted.kind,
        wanted.name,
        wanted.pattern,
        wanted.principal,
        wanted.host,
        _ANY_NUMBER if wanted.operation is None else wanted.operation,
        _ANY_NUMBER if wanted.permission is None else wanted.permission,
    )


def _known(kind: int, name: str, pattern: int, one: AclDescription) -> Acl | None:
    """A rule of a response; None for one in terms of a later version."""
    try:
        return acl_of(kind, name, pattern, one.principal, one.host, one.operation, one.permission_type)
    except InvalidAclError:
        return None


def _check(what: str, code: int, message: str | None) -> None:
    check(what, code, f"{message} {_ADVICE}" if code == ErrorCode.SECURITY_DISABLED else message)

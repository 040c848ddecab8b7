"""DescribeAcls (29): the rules that a filter names.

v1   patterns of resources (LITERAL, PREFIXED, MATCH)    v2   flexible    v3   rules about users

Without the built-in authorizer the answer is SECURITY_DISABLED.
Deviation: an unknown number in the filter is answered with INVALID_REQUEST; Kafka closes the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.cluster.authorization import DENIED, needs_cluster
from qanat.api.request_context import RequestContext
from qanat.api.security.acl_authorizer import authorizer_of
from qanat.broker.security.acl_authorizer import AclAuthorizer
from qanat.cluster.rejection import Rejection
from qanat.model.error_codes import ErrorCode
from qanat.security.acl_filters import AclFilter, InvalidAclError, filter_of
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: DescribeAclsRequest, access: AccessCheck) -> Verdict:
    """DESCRIBE on the cluster."""
    return needs_cluster(Operation.DESCRIBE, access, _refused(Rejection(DENIED, "Cluster authorization failed.")))


def handle(request: DescribeAclsRequest, context: RequestContext) -> object:
    authorizer = authorizer_of(context.broker)
    if isinstance(authorizer, Rejection):
        return _refused(Rejection(authorizer.code, "No Authorizer is configured on the broker"))
    try:
        wanted = filter_of(
            request.resource_type_filter,
            request.resource_name_filter,
            request.pattern_type_filter,
            request.principal_filter,
            request.host_filter,
            request.operation,
            request.permission_type,
        )
    except InvalidAclError as fault:
        return _refused(Rejection(ErrorCode.INVALID_REQUEST, str(fault)))
    return _described(authorizer, wanted, context)


async def _described(authorizer: AclAuthorizer, wanted: AclFilter, context: RequestContext) -> DescribeAclsResponse:
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    async for _, acl in context.yielder.over(list(authorizer.rules())):
        if not wanted.matches(acl):
            continue
        place = int(acl.kind), acl.name, int(acl.pattern)
        resource = resources.get(place)
        if resource is None:
            resource = resources[place] = DescribeAclsResource(*place, acls=[])
        resource.acls.append(AclDescription(acl.principal, acl.host, int(acl.operation), int(acl.permission)))
    return DescribeAclsResponse(error_message=None, resources=list(resources.values()))


def _refused(why: Rejection) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=why.code, error_message=why.message)

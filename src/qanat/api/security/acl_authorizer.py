"""The authorizer whose rules the ACL APIs describe and change; without it they answer SECURITY_DISABLED."""

from __future__ import annotations

from qanat.broker.broker import Broker
from qanat.broker.security.acl_authorizer import AclAuthorizer
from qanat.cluster.rejection import Rejection
from qanat.model.error_codes import ErrorCode

_DISABLED = Rejection(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def authorizer_of(broker: Broker) -> AclAuthorizer | Rejection:
    return _DISABLED if broker.acl_authorizer is None else broker.acl_authorizer

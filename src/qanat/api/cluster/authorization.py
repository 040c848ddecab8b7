"""The authorization rule of APIs that need one operation on the cluster as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def needs_cluster(operation: Operation, access: AccessCheck, refused: Any) -> Verdict:
    """The operation on the cluster; `refused` is the response to callers that may not."""
    return access.grant() if access.may_cluster(operation) else access.deny(refused)

"""The authorization rule of APIs that need one operation on the cluster as a whole."""

from __future__ import annotations

from typing import Any

from qanat.api.authorization import GRANTED, AccessCheck, Denied, Verdict
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation

DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def needs_cluster(operation: Operation, access: AccessCheck, refused: Any) -> Verdict:
    """The operation on the cluster; `refused` is the response to callers that may not."""
    return GRANTED if access.may_cluster(operation) else Denied(refused)

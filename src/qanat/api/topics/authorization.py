"""Authorization rules that the topic APIs share: who may create a topic, and how a refusal reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
DENIED_MESSAGE = "Authorization failed."


def may_create(name: str, access: AccessCheck) -> bool:
    return access.may_on_cluster_or_topic(Operation.CREATE, name)

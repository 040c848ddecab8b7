"""DescribeUserScramCredentials (50): which SCRAM mechanisms users have, and with how many iterations.

v0   flexible

No users, or null, stands for all of them. Neither salts nor keys are shown.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from qanat.api.cluster.authorization import DENIED, needs_cluster
from qanat.api.request_context import RequestContext
from qanat.api.security.scram_mechanisms import NUMBERS
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: DescribeUserScramCredentialsRequest, access: AccessCheck) -> Verdict:
    """DESCRIBE on the cluster."""
    message = "Cluster authorization failed."
    rows = [DescribeUserScramCredentialsResult("", DENIED, message) for _ in request.users or ()]
    refused = DescribeUserScramCredentialsResponse(error_code=DENIED, error_message=message, results=rows)
    return needs_cluster(Operation.DESCRIBE, access, refused)


async def handle(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    infos: dict[str, list[CredentialInfo]] = {}
    async for (user, mechanism), credential in context.yielder.over(
        sorted(context.broker.metadata.image.credentials.items(), key=lambda item: item[0])
    ):
        if mechanism in NUMBERS:
            infos.setdefault(user, []).append(CredentialInfo(NUMBERS[mechanism], credential.iterations))
    times = Counter(user.name for user in request.users or ()) or Counter(list(infos))
    rows = [_row(name, times[name], infos.get(name)) async for name in context.yielder.over(list(times))]
    return DescribeUserScramCredentialsResponse(error_message=None, results=rows)


def _row(name: str, times: int, infos: list[CredentialInfo] | None) -> DescribeUserScramCredentialsResult:
    if times > 1:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return DescribeUserScramCredentialsResult(name, ErrorCode.DUPLICATE_RESOURCE, message)
    if infos is None:
        message = f"Attempt to describe a user credential that does not exist: {name}"
        return DescribeUserScramCredentialsResult(name, ErrorCode.RESOURCE_NOT_FOUND, message)
    return DescribeUserScramCredentialsResult(name, error_message=None, credential_infos=infos)

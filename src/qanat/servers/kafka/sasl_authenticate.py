"""SaslAuthenticate (36): one token of an authentication, and the mechanism's answer.

v1   session lifetime (none: an authenticated client stays so)    v2   flexible

A refused client is answered after a moment, without the reason, and the connection is closed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.model.error_codes import ErrorCode
from qanat.security.authentication import Refused
from qanat.servers.kafka import unauthenticated
from qanat.servers.kafka.connection import KafkaConnection
from qanat.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: SaslAuthenticateRequest, access: AccessCheck) -> Verdict:
    """Allowed for every client."""
    return access.grant()


def handle(request: SaslAuthenticateRequest, context: RequestContext) -> object:
    connection = context.caller
    assert isinstance(connection, KafkaConnection), "no other server has SASL requests"
    if connection.conversation is None:
        return SaslAuthenticateResponse(
            ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication"
        )
    outcome = unauthenticated.step(bytes(request.auth_bytes), connection)
    if isinstance(outcome, Refused):
        return _refuse(connection, outcome.message or unauthenticated.FAILED)
    return SaslAuthenticateResponse(error_message=None, auth_bytes=outcome.token)


async def _refuse(connection: KafkaConnection, message: str) -> SaslAuthenticateResponse:
    await asyncio.sleep(unauthenticated.REFUSAL_DELAY_S)
    unauthenticated.close_when_answered(connection)
    return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, message)

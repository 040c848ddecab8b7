"""SaslAuthenticate (36): one token of an authentication, and what the mechanism has to say to it.

v1   session lifetime (none: who is authenticated stays so)    v2   flexible

A client that is refused is told so after a moment, without the reason, and the connection is closed.
"""

from __future__ import annotations

import asyncio

from qanat.api.request_context import RequestContext
from qanat.model.error_codes import ErrorCode
from qanat.security.authentication import Refused
from qanat.servers.kafka import unauthenticated
from qanat.servers.kafka.connection import KafkaConnection
from qanat.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(request: SaslAuthenticateRequest, context: RequestContext) -> object:
    connection = context.caller
    assert isinstance(connection, KafkaConnection), "no other server has SASL requests"
    if connection.conversation is None:
        return SaslAuthenticateResponse(
            ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication"
        )
    outcome = unauthenticated.step(bytes(request.auth_bytes), connection)
    if isinstance(outcome, Refused):
        return _refuse(connection)
    return SaslAuthenticateResponse(error_message=None, auth_bytes=outcome.token)


async def _refuse(connection: KafkaConnection) -> SaslAuthenticateResponse:
    await asyncio.sleep(unauthenticated.REFUSAL_DELAY_S)
    unauthenticated.close_when_answered(connection)
    return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, unauthenticated.FAILED)

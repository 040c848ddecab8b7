"""SaslAuthenticate (36): one token of an authentication, and what the mechanism has to say to it.

v1   session lifetime (none: who is authenticated stays so)    v2   flexible

A client that is refused is told so after a moment, without the reason, and the connection is closed.
"""

from __future__ import annotations

import asyncio

from qanat.model.error_codes import ErrorCode
from qanat.security.authentication import Refused
from qanat.servers.kafka import sasl
from qanat.servers.kafka.connection import KafkaConnection
from qanat.servers.kafka.dispatch import Context
from qanat.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(request: SaslAuthenticateRequest, context: Context) -> object:
    connection = context.connection
    if connection.conversation is None:
        return SaslAuthenticateResponse(
            ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication"
        )
    outcome = sasl.step(bytes(request.auth_bytes), connection)
    if isinstance(outcome, Refused):
        return _refuse(connection)
    return SaslAuthenticateResponse(error_message=None, auth_bytes=outcome.token)


async def _refuse(connection: KafkaConnection) -> SaslAuthenticateResponse:
    await asyncio.sleep(sasl.REFUSAL_DELAY_S)
    sasl.close_when_answered(connection)
    return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, sasl.FAILED)

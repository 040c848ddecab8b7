"""SaslAuthenticate (36): one token of an authentication, and the mechanism's answer.

v1   session lifetime: the rest of the client's token, or connections.max.reauth.ms, the shorter    v2   flexible

A refused client is answered after a moment, without the reason, and the connection is closed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from qanat.api.request_context import RequestContext
from qanat.model.error_codes import ErrorCode
from qanat.security.authentication import Accepted, Challenge, Refused, Step
from qanat.security.sasl_exchange import SaslExchange
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
    conversation = connection.conversation or connection.renewal
    if conversation is None:
        return SaslAuthenticateResponse(
            ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication"
        )
    outcome = unauthenticated.step(bytes(request.auth_bytes), conversation, connection)
    if isinstance(outcome, Coroutine):
        return _later(outcome, conversation, connection)
    return _refuse(connection, outcome) if isinstance(outcome, Refused) else _answer(outcome, conversation)


async def _later(
    outcome: Coroutine[Any, Any, Step], conversation: SaslExchange, connection: KafkaConnection
) -> SaslAuthenticateResponse:
    step = await outcome
    return await _refuse(connection, step) if isinstance(step, Refused) else _answer(step, conversation)


def _answer(step: Challenge | Accepted, conversation: SaslExchange) -> SaslAuthenticateResponse:
    lifetime_ms = conversation.lifetime_ms(time.time()) if isinstance(step, Accepted) else 0
    return SaslAuthenticateResponse(error_message=None, auth_bytes=step.token, session_lifetime_ms=lifetime_ms)


async def _refuse(connection: KafkaConnection, refused: Refused) -> SaslAuthenticateResponse:
    await asyncio.sleep(unauthenticated.REFUSAL_DELAY_S)
    unauthenticated.close_when_answered(connection)
    return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, refused.message or unauthenticated.FAILED)

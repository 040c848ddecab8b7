"""Frames of a client before it is authenticated, and when it has to authenticate again.

ApiVersions, SaslHandshake and SaslAuthenticate, in that order; or, after SaslHandshake v0, bare tokens in frames of
their own. Any other frame closes the connection. The log gets the reason, the client does not.

A session that has ended is closed by the first frame that is neither SaslHandshake nor SaslAuthenticate (KIP-368).
Before, the client authenticates again with these two, and its other requests are served meanwhile.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Coroutine
from typing import Any

from qanat.model.errors import MalformedMessageError
from qanat.security.authentication import Accepted, Outcome, Refused, Step
from qanat.security.sasl_exchange import SaslExchange, Stage
from qanat.servers.kafka.connection import NEVER_S, Answer, KafkaConnection
from qanat.wire.kafka.headers import read_request_header
from qanat.wire.kafka.registry import ApiKey

FAILED = "Authentication failed: invalid credentials"
REFUSAL_DELAY_S = 0.1
"""How long a refused client waits for its answer, as in Kafka: it slows guessing."""
_READING_S = 0.1
"""How long a refused client may read its answer: some drop one that comes together with the end of the connection, and
take the broker for unavailable."""

_RENEWS = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
_ALLOWED = {
    Stage.UNAUTHENTICATED: (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE),
    Stage.IN_REQUESTS: (ApiKey.SASL_AUTHENTICATE,),
}


def admit(frame: memoryview, connection: KafkaConnection) -> Answer | Coroutine[Any, Any, Answer]:
    """None where the frame may be handled as a request; the answer to a bare token; raises otherwise."""
    conversation = connection.conversation
    assert conversation is not None, "the client is not authenticated"
    if conversation.stage is Stage.BARE:
        return _answer_bare(bytes(frame), connection)
    key = read_request_header(frame).api_key
    if key not in _ALLOWED.get(conversation.stage, ()):
        raise MalformedMessageError(f"API {key} was requested before authentication")
    return None


def admit_expired(frame: memoryview, connection: KafkaConnection) -> bool:
    """Whether a frame of a session that has ended may be handled; any that does not renew it closes the connection."""
    if read_request_header(frame).api_key in _RENEWS:
        return True
    connection.on_expired(connection)
    connection.abort()
    return False


def step(token: bytes, conversation: SaslExchange, connection: KafkaConnection) -> Outcome:
    """Take a token, and keep its outcome in the connection."""
    guard = connection.login_guard
    if guard is not None:
        conversation.note_claim(token)
        if (limited := guard.refusal(connection, conversation.claimed_name)) is not None:
            connection.renewal = None
            return conversation.refuse(limited)
    outcome = conversation.step(token)
    if isinstance(outcome, Coroutine):
        return _step_later(outcome, conversation, connection)
    return _note(outcome, conversation, connection)


async def _step_later(
    outcome: Coroutine[Any, Any, Step], conversation: SaslExchange, connection: KafkaConnection
) -> Step:
    return _note(await outcome, conversation, connection)


def _note(outcome: Step, conversation: SaslExchange, connection: KafkaConnection) -> Step:
    if connection.login_guard is not None:
        connection.login_guard.note(connection, conversation.claimed_name, outcome)
    if isinstance(outcome, Accepted):
        _begin_session(conversation, connection)
        return outcome
    if isinstance(outcome, Refused):
        connection.renewal = None
    reason = outcome.reason if isinstance(outcome, Refused) else outcome.refusal
    if reason:
        connection.on_refused(connection, reason)
    return outcome


def _begin_session(conversation: SaslExchange, connection: KafkaConnection) -> None:
    assert conversation.principal is not None, "authenticated"
    lifetime_ms = conversation.lifetime_ms(time.time())
    connection.session = conversation
    connection.session_end_s = time.perf_counter() + lifetime_ms / 1000 if lifetime_ms else NEVER_S
    if conversation.is_renewal:
        connection.renewal = None
        connection.on_renewed(connection)
    else:
        connection.principal = conversation.principal
        connection.conversation = None
        connection.on_authenticated(connection)


def close_when_answered(connection: KafkaConnection) -> None:
    """Close after the answer that is being returned: it is sent one turn of the loop later."""
    loop = asyncio.get_running_loop()
    if connection.conversation is None:  # A session would be used meanwhile.
        loop.call_soon(lambda: loop.call_soon(connection.close))
    else:
        loop.call_later(_READING_S, connection.close)


def _answer_bare(token: bytes, connection: KafkaConnection) -> Answer | Coroutine[Any, Any, Answer]:
    assert connection.conversation is not None
    outcome = step(token, connection.conversation, connection)
    return _bare_later(outcome) if isinstance(outcome, Coroutine) else _bare(outcome)


async def _bare_later(outcome: Coroutine[Any, Any, Step]) -> Answer:
    return _bare(await outcome)


def _bare(outcome: Step) -> Answer:
    if isinstance(outcome, Refused):
        raise MalformedMessageError("authentication failed")
    return [struct.pack(">i", len(outcome.token)) + outcome.token]

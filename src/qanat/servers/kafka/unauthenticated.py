"""Frames of a client before it is authenticated.

ApiVersions, SaslHandshake and SaslAuthenticate, in that order; or, after SaslHandshake v0, bare tokens in frames of
their own. Any other frame closes the connection. The log gets the reason, the client does not.
"""

from __future__ import annotations

import asyncio
import struct

from qanat.model.errors import MalformedMessageError
from qanat.security.authentication import Accepted, Refused, Step
from qanat.security.sasl_exchange import Stage
from qanat.servers.kafka.connection import Answer, KafkaConnection
from qanat.wire.kafka.headers import read_request_header
from qanat.wire.kafka.registry import ApiKey

FAILED = "Authentication failed: invalid credentials"
REFUSAL_DELAY_S = 0.1
"""How long a refused client waits for its answer, as in Kafka: it slows guessing."""

_ALLOWED = {
    Stage.UNAUTHENTICATED: (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE),
    Stage.IN_REQUESTS: (ApiKey.SASL_AUTHENTICATE,),
}


def admit(frame: memoryview, connection: KafkaConnection) -> Answer:
    """None where the frame may be handled as a request; the answer to a bare token; raises otherwise."""
    conversation = connection.conversation
    assert conversation is not None, "the client is not authenticated"
    if conversation.stage is Stage.BARE:
        return _answer_bare(bytes(frame), connection)
    key = read_request_header(frame).api_key
    if key not in _ALLOWED.get(conversation.stage, ()):
        raise MalformedMessageError(f"API {key} was requested before authentication")
    return None


def step(token: bytes, connection: KafkaConnection) -> Step:
    """Take a token, and keep its outcome in the connection."""
    conversation = connection.conversation
    assert conversation is not None
    guard = connection.login_guard
    if guard is not None:
        conversation.note_claim(token)
        if (limited := guard.refusal(connection, conversation.claimed_name)) is not None:
            return conversation.refuse(limited)
    outcome = conversation.step(token)
    if guard is not None:
        guard.note(connection, conversation.claimed_name, outcome)
    if isinstance(outcome, Accepted):
        connection.principal = outcome.principal
        connection.conversation = None
        connection.on_authenticated(connection)
    elif isinstance(outcome, Refused):
        connection.on_refused(connection, outcome.reason)
    return outcome


def close_when_answered(connection: KafkaConnection) -> None:
    """Close after the answer that is being returned: it is sent one turn of the loop later."""
    loop = asyncio.get_running_loop()
    loop.call_soon(lambda: loop.call_soon(connection.close))


def _answer_bare(token: bytes, connection: KafkaConnection) -> Answer:
    outcome = step(token, connection)
    if isinstance(outcome, Refused):
        raise MalformedMessageError("authentication failed")
    return [struct.pack(">i", len(outcome.token)) + outcome.token]

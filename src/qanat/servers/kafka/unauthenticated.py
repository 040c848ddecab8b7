"""Strangers: what may come over a connection before its client is authenticated.

ApiVersions, SaslHandshake and SaslAuthenticate, in that order; or, after SaslHandshake v0, bare tokens in frames of
their own. Anything else ends the connection. What a client said wrong is told to the log, not to the client.
"""

from __future__ import annotations

import asyncio
import struct

from qanat.model.errors import MalformedMessageError
from qanat.security.authentication import Accepted, Refused, Step
from qanat.security.sasl_exchange import Stage
from qanat.servers.kafka.connection import Answer, KafkaConnection
from qanat.telemetry.events import RateLimitedEvent
from qanat.wire.kafka.headers import read_request_header
from qanat.wire.kafka.registry import ApiKey

FAILED = "Authentication failed: invalid credentials"
REFUSAL_DELAY_S = 0.1
"""How long a refused client waits for its answer, as in Kafka: guessing is slow."""

_ALLOWED = {
    Stage.UNAUTHENTICATED: (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE),
    Stage.IN_REQUESTS: (ApiKey.SASL_AUTHENTICATE,),
}
_tell_refused = RateLimitedEvent("authentication failed")


def admit(frame: memoryview, connection: KafkaConnection) -> Answer:
    """None where a stranger's frame may be handled as a request; the answer to a bare token; raises otherwise."""
    conversation = connection.conversation
    assert conversation is not None, "only strangers are admitted"
    if conversation.stage is Stage.BARE:
        return _answer_bare(bytes(frame), connection)
    key = read_request_header(frame).api_key
    if key not in _ALLOWED.get(conversation.stage, ()):
        raise MalformedMessageError(f"API {key} was asked for before authentication")
    return None


def step(token: bytes, connection: KafkaConnection) -> Step:
    """Take a token, and remember what came of it."""
    conversation = connection.conversation
    assert conversation is not None
    outcome = conversation.step(token)
    if isinstance(outcome, Accepted):
        connection.principal = outcome.principal
        connection.conversation = None
    elif isinstance(outcome, Refused):
        connection.on_refused()
        _tell_refused(peer=connection.peer, reason=outcome.reason)
    return outcome


def close_when_answered(connection: KafkaConnection) -> None:
    """Close after the answer that is just being returned: it is sent one turn of the loop later."""
    loop = asyncio.get_running_loop()
    loop.call_soon(lambda: loop.call_soon(connection.close))


def _answer_bare(token: bytes, connection: KafkaConnection) -> Answer:
    outcome = step(token, connection)
    if isinstance(outcome, Refused):
        raise MalformedMessageError("authentication failed")
    return [struct.pack(">i", len(outcome.token)) + outcome.token]

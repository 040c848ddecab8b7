"""SaslHandshake (17): which mechanism a client wants to authenticate with.

v0   tokens follow in frames of their own    v1   tokens follow in SaslAuthenticate

A mechanism that is not offered is refused with those that are. On a listener that asks for no authentication, and after
it, the answer is Kafka's: ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from qanat.api.request_context import RequestContext
from qanat.model.error_codes import ErrorCode
from qanat.servers.kafka.connection import KafkaConnection
from qanat.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    connection = context.caller
    assert isinstance(connection, KafkaConnection), "no other server has SASL requests"
    conversation = connection.conversation
    if conversation is None:
        return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE, [])
    is_known = conversation.choose(request.mechanism, tokens_are_bare=context.version == 0)
    code = ErrorCode.NONE if is_known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
    return SaslHandshakeResponse(code, conversation.mechanisms)

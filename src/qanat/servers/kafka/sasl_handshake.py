"""SaslHandshake (17): the mechanism that a client wants to authenticate with.

v0   tokens follow in frames of their own    v1   tokens follow in SaslAuthenticate

An unknown mechanism is refused with the list of known ones. A client whose session has an end authenticates again by
v1, with the mechanism that it had (KIP-368). Otherwise, after authentication and on a listener without it, the answer
is Kafka's: ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.model.error_codes import ErrorCode
from qanat.servers.kafka.connection import NEVER_S, KafkaConnection
from qanat.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: SaslHandshakeRequest, access: AccessCheck) -> Verdict:
    """Allowed for every client."""
    return access.grant()


def handle(request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    connection = context.caller
    assert isinstance(connection, KafkaConnection), "no other server has SASL requests"
    conversation = connection.conversation
    if conversation is None:
        if connection.session is None or connection.session_end_s == NEVER_S or context.version == 0:
            return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE, [])
        conversation = connection.renewal = connection.session.renewal()
    is_known = conversation.choose(request.mechanism, tokens_are_bare=context.version == 0)
    if not is_known:
        connection.renewal = None
    code = ErrorCode.NONE if is_known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
    return SaslHandshakeResponse(code, conversation.mechanisms)

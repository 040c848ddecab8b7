"""SaslHandshake (17): which mechanism a client wants to authenticate with.

v0   tokens follow without a frame of the protocol    v1   tokens follow in SaslAuthenticate

There is no authentication yet: every listener is plain, and answers as Kafka's plain listeners do.
"""

from __future__ import annotations

from qanat.model.error_codes import ErrorCode
from qanat.servers.kafka.dispatch import Context
from qanat.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(request: SaslHandshakeRequest, context: Context) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE, [])

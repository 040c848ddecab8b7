"""SaslAuthenticate (36): one token of an authentication.

v1   session lifetime    v2   flexible

There is no authentication yet: see `sasl_handshake`.
"""

from __future__ import annotations

from qanat.model.error_codes import ErrorCode
from qanat.servers.kafka.dispatch import Context
from qanat.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(request: SaslAuthenticateRequest, context: Context) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication"
    )

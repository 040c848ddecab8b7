"""PushTelemetry (72): the metrics of a client, as OpenTelemetry's protocol writes them.

v0   all in one

What cannot be read is refused with INVALID_RECORD, what is too large, as sent or opened, with TELEMETRY_TOO_LARGE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from qanat.api.client_metrics.client_identity import identity_of
from qanat.api.request_context import RequestContext
from qanat.wire.kafka.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: PushTelemetryRequest, access: AccessCheck) -> Verdict:
    """Allowed for every client: it speaks of itself alone."""
    return access.grant()


async def handle(request: PushTelemetryRequest, context: RequestContext) -> PushTelemetryResponse:
    code = await context.broker.client_metrics.push(
        UUID(bytes=request.client_instance_id),
        identity_of(context),
        request.subscription_id,
        request.compression_type,
        request.metrics,
        is_last=request.terminating,
    )
    return PushTelemetryResponse(error_code=code)

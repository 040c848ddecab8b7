"""GetTelemetrySubscriptions (71): which metrics a client is to push, how often, and under which id.

v0   all in one

A client without an id gets one. Numbers are wanted as they are since the client began (`delta_temporality` false): a
push that is lost costs nothing.
Deviation: Kafka serves this only where a plug-in takes the metrics; here the broker keeps them itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from qanat.api.client_metrics.client_identity import identity_of
from qanat.api.request_context import RequestContext
from qanat.broker.runtime.client_metrics import ACCEPTED_COMPRESSION, PUSH_BYTES_MAX
from qanat.wire.kafka.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: GetTelemetrySubscriptionsRequest, access: AccessCheck) -> Verdict:
    """Allowed for every client: it learns what it is to say of itself."""
    return access.grant()


def handle(request: GetTelemetrySubscriptionsRequest, context: RequestContext) -> GetTelemetrySubscriptionsResponse:
    metrics = context.broker.client_metrics
    instance, wanted, code = metrics.subscribe(UUID(bytes=request.client_instance_id), identity_of(context))
    if code:
        return GetTelemetrySubscriptionsResponse(error_code=code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.bytes,
        subscription_id=wanted.subscription_id,
        accepted_compression_types=list(ACCEPTED_COMPRESSION),
        push_interval_ms=wanted.interval_ms,
        telemetry_max_bytes=PUSH_BYTES_MAX,
        delta_temporality=False,
        requested_metrics=list(wanted.metrics),
    )

"""WriteTxnMarkers (27): end transactions in partitions that this broker leads.

v1   flexible    v2   the transaction version, by which late markers are recognized (KIP-1228)

Coordinators send it to other brokers; operators send it for a transaction that no coordinator knows any more
(`qanat transaction abort`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.broker.replicas.partition import EndMarker
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: WriteTxnMarkersRequest, access: AccessCheck) -> Verdict:
    """CLUSTER_ACTION on the cluster, or ALTER: an administrator ends a transaction that hangs (KIP-664)."""
    if access.may_cluster(Operation.CLUSTER_ACTION) or access.may_cluster(Operation.ALTER):
        return access.grant()
    return access.deny(WriteTxnMarkersResponse([_denied(marker) for marker in request.markers]))


def _denied(marker: WritableTxnMarker) -> WritableTxnMarkerResult:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    topics = [
        WritableTxnMarkerTopicResult(
            topic.name, [WritableTxnMarkerPartitionResult(number, code) for number in topic.partition_indexes]
        )
        for topic in marker.topics
    ]
    return WritableTxnMarkerResult(marker.producer_id, topics)


def handle(request: WriteTxnMarkersRequest, context: RequestContext) -> object:
    return context.broker.park(_write(request, context))


async def _write(request: WriteTxnMarkersRequest, context: RequestContext) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[await _one(marker, context) async for marker in context.yielder.over(request.markers)]
    )


async def _one(marker: WritableTxnMarker, context: RequestContext) -> WritableTxnMarkerResult:
    end = EndMarker(
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        marker.transaction_result,
        marker.transaction_version,
    )
    yielder = context.yielder
    topics = []
    async for topic in yielder.over(marker.topics):
        rows: list[WritableTxnMarkerPartitionResult] = []
        async for numbers in yielder.pieces(topic.partition_indexes):
            partitions = [TopicPartition(topic.name, number) for number in numbers]
            errors = await context.broker.markers.write(end, partitions)
            rows += [WritableTxnMarkerPartitionResult(at.partition, errors[at]) for at in partitions]
        topics.append(WritableTxnMarkerTopicResult(topic.name, rows))
    return WritableTxnMarkerResult(marker.producer_id, topics)

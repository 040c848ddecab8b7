"""DescribeCluster (60): the cluster's id, its controller, its brokers.

v0   flexible from the start    v1   brokers or controllers (KIP-919)    v2   fenced brokers, on request

Controllers have no listener of their own: a request for them gets MISMATCHED_ENDPOINT_TYPE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.allowed_operations import NOT_ASKED, ON_CLUSTER
from qanat.api.endpoints import endpoint_of
from qanat.api.request_context import RequestContext
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_BROKERS, _CONTROLLERS = 1, 2


def authorize(request: DescribeClusterRequest, access: AccessCheck) -> Verdict:
    """Allowed for every client; the cluster's operations are shown to callers that may DESCRIBE it."""
    if not request.include_cluster_authorized_operations:
        return access.grant()

    def complete(response: DescribeClusterResponse) -> DescribeClusterResponse:
        response.cluster_authorized_operations = access.cluster_operations()
        return response

    return access.grant(complete)


def handle(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    if request.endpoint_type == _CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, "
            "but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
        )
    broker = context.broker
    return DescribeClusterResponse(
        cluster_id=broker.metadata.image.cluster_id,
        controller_id=broker.metadata.image.controller_id,
        brokers=[
            DescribeClusterBroker(one.node_id, listener.host, listener.port, one.rack)
            for one in broker.metadata.image.brokers.values()
            if (listener := endpoint_of(one, context.caller)) is not None
        ],
        cluster_authorized_operations=ON_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED,
    )

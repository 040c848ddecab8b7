"""ListConfigResources (74): the names of what has settings.

v0   subscriptions to metrics of clients (client-metrics) alone
v1   topics, brokers, groups as well; no types stand for all
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.configs.config_resources import ResourceType
from qanat.api.request_context import RequestContext
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qanat.api.authorization import AccessCheck, Verdict
    from qanat.cluster.image import MetadataImage

_ALL_FROM = 1


def authorize(request: ListConfigResourcesRequest, access: AccessCheck) -> Verdict:
    """DESCRIBE_CONFIGS on the cluster."""
    if access.may_cluster(Operation.DESCRIBE_CONFIGS):
        return access.grant()
    return access.deny(ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))


async def handle(request: ListConfigResourcesRequest, context: RequestContext) -> ListConfigResourcesResponse:
    kinds = [int(ResourceType.CLIENT_METRICS)]
    if context.version >= _ALL_FROM:
        kinds = list(dict.fromkeys(request.resource_types)) or sorted(ResourceType)
        if any(kind not in list(ResourceType) for kind in kinds):
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = context.broker.metadata.image
    found: list[ConfigResource] = []
    for kind in kinds:
        names = context.yielder.over(list(_names(ResourceType(kind), image)))
        found += [ConfigResource(name, kind) async for name in names]
    return ListConfigResourcesResponse(config_resources=found)


def _names(kind: ResourceType, image: MetadataImage) -> Iterable[str]:
    match kind:
        case ResourceType.TOPIC:
            return sorted(image.topics)
        case ResourceType.BROKER:
            return map(str, sorted(image.brokers))
        case ResourceType.BROKER_LOGGER:
            return ()  # They have no settings here.
        case ResourceType.CLIENT_METRICS:
            return sorted(image.client_metrics)
        case ResourceType.GROUP:
            return sorted(image.group_configs)

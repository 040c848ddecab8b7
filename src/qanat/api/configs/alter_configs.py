"""AlterConfigs (33): set exactly these settings of a topic, a broker, all brokers or a group; reset all others.

v0   all in one    v2   flexible

Clients should use IncrementalAlterConfigs, as in Kafka.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from qanat.api.admin_tasks import attempt
from qanat.api.configs.authorization import denial_of, split_resources
from qanat.api.configs.config_resources import ResourceType, alter_each, judge_change, missing_value, owner_of
from qanat.api.request_context import RequestContext
from qanat.cluster.image import MetadataImage
from qanat.cluster.rejection import Rejection
from qanat.cluster.topic_configs import (
    ConfigPlan,
    decide_all_broker_configs,
    decide_all_configs,
    decide_all_group_configs,
)
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: AlterConfigsRequest, access: AccessCheck) -> Verdict:
    """ALTER_CONFIGS on each resource."""
    request.resources, denied = split_resources(request.resources, Operation.ALTER_CONFIGS, access)
    return access.grant_without(denied, lambda response: response.responses, _denied)


def _denied(one: AlterConfigsResource) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(denial_of(one), None, one.resource_type, one.resource_name)


async def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    async def alter(resource: AlterConfigsResource) -> ConfigPlan | Rejection:
        return await _alter(resource, context, is_dry_run=request.validate_only)

    rows = await alter_each(request.resources, alter, AlterConfigsResourceResponse, context)
    return AlterConfigsResponse(responses=rows)


async def _alter(
    resource: AlterConfigsResource, context: RequestContext, *, is_dry_run: bool
) -> ConfigPlan | Rejection:
    names = [config.name for config in resource.configs]
    rejection = judge_change(resource.resource_type, resource.resource_name, names, context.broker)
    if rejection is not None:
        return rejection
    for config in resource.configs:
        if config.value is None:
            return missing_value(config.name)
    wanted: dict[str, str | None] = {}
    async for piece in context.yielder.pieces(resource.configs):
        wanted.update((config.name, config.value) for config in piece)
    broker, name = context.broker, resource.resource_name

    def decide(image: MetadataImage) -> ConfigPlan | Rejection:
        if resource.resource_type == ResourceType.TOPIC:
            return decide_all_configs(image, name, wanted, broker.current_settings.check_topic)
        if resource.resource_type == ResourceType.GROUP:
            return decide_all_group_configs(image, name, wanted, broker.group_configs.check)
        return decide_all_broker_configs(
            image, owner_of(name), wanted, partial(broker.current_settings.check_broker, is_for_all=not name)
        )

    return await attempt(broker.metadata_changes.carry_out(decide, is_dry_run=is_dry_run))

"""IncrementalAlterConfigs (44): change some settings of a topic, a broker, all brokers or a group.

v0   set, delete, append to a list, subtract from a list    v1   flexible

A change takes effect at once. A broker's dynamic settings are those of `broker.settings.dynamic_settings`.
Deviation: subtracting the last cleanup policy is refused (Kafka 4.1 then keeps everything).
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
    ConfigAct,
    ConfigChange,
    ConfigPlan,
    decide_broker_configs,
    decide_configs,
    decide_group_configs,
)
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_CHANGES_MAX = 1_000
"""No topic has that many settings: one of the first thousand different names is already refused."""
_ACTS = {int(act): act for act in ConfigAct}


def authorize(request: IncrementalAlterConfigsRequest, access: AccessCheck) -> Verdict:
    """ALTER_CONFIGS on each resource."""
    request.resources, denied = split_resources(request.resources, Operation.ALTER_CONFIGS, access)
    return access.grant_without(denied, lambda response: response.responses, _denied)


def _denied(one: AlterConfigsResource) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(denial_of(one), None, one.resource_type, one.resource_name)


async def handle(request: IncrementalAlterConfigsRequest, context: RequestContext) -> IncrementalAlterConfigsResponse:
    async def alter(resource: AlterConfigsResource) -> ConfigPlan | Rejection:
        return await _alter(resource, context, is_dry_run=request.validate_only)

    rows = await alter_each(request.resources, alter, AlterConfigsResourceResponse, context)
    return IncrementalAlterConfigsResponse(responses=rows)


async def _alter(
    resource: AlterConfigsResource, context: RequestContext, *, is_dry_run: bool
) -> ConfigPlan | Rejection:
    names = [config.name for config in resource.configs]
    rejection = judge_change(resource.resource_type, resource.resource_name, names, context.broker)
    changes = await _changes(resource, context)
    if rejection is not None or isinstance(changes, Rejection):
        return rejection or changes  # type: ignore[return-value]  # One of the two is a rejection.
    broker, name, some = context.broker, resource.resource_name, changes[:_CHANGES_MAX]

    def decide(image: MetadataImage) -> ConfigPlan | Rejection:
        if resource.resource_type == ResourceType.TOPIC:
            return decide_configs(image, name, some, broker.current_settings.check_topic)
        if resource.resource_type == ResourceType.GROUP:
            return decide_group_configs(image, name, some, broker.group_configs.check)
        return decide_broker_configs(
            image, owner_of(name), some, partial(broker.current_settings.check_broker, is_for_all=not name)
        )

    return await attempt(broker.metadata_changes.carry_out(decide, is_dry_run=is_dry_run))


async def _changes(resource: AlterConfigsResource, context: RequestContext) -> list[ConfigChange] | Rejection:
    changes: list[ConfigChange] = []
    async for config in context.yielder.over(resource.configs):
        act = _ACTS.get(config.config_operation)
        if act is None:
            return Rejection(
                ErrorCode.INVALID_REQUEST, f"Unknown operation {config.config_operation} on {config.name}."
            )
        if config.value is None and act is not ConfigAct.DELETE:
            return missing_value(config.name)
        changes.append(ConfigChange(config.name, act, config.value))
    return changes

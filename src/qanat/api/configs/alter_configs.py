"""AlterConfigs (33): exactly these settings for a topic, a broker, all brokers or a group; all others back to default.

v0   all in one    v2   flexible

Clients should use IncrementalAlterConfigs, as with Kafka.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from qanat.api.admin_tasks import attempt, carry_through
from qanat.api.configs.config_resources import REPEATED, ResourceType, judge_change, missing_value, owner_of
from qanat.api.request_context import RequestContext
from qanat.cluster.image import MetadataImage
from qanat.cluster.rejection import Rejection
from qanat.cluster.topic_configs import (
    ConfigPlan,
    decide_all_broker_configs,
    decide_all_configs,
    decide_all_group_configs,
)
from qanat.wire.kafka.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    keys = [(resource.resource_type, resource.resource_name) for resource in request.resources]
    times = Counter(keys)
    responses: list[AlterConfigsResourceResponse] = []

    async def alter_all() -> None:
        async for resource, key in context.yielder.over(zip(request.resources, keys, strict=True)):
            if times[key] > 1:
                outcome: ConfigPlan | Rejection = REPEATED
            else:
                outcome = await _alter(resource, context, is_dry_run=request.validate_only)
            responses.append(_response(resource, outcome))

    await carry_through(context.broker, alter_all())
    return AlterConfigsResponse(responses=responses)


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


def _response(resource: AlterConfigsResource, outcome: ConfigPlan | Rejection) -> AlterConfigsResourceResponse:
    if isinstance(outcome, Rejection):
        code, message = int(outcome.code), outcome.message
        return AlterConfigsResourceResponse(code, message, resource.resource_type, resource.resource_name)
    return AlterConfigsResourceResponse(0, None, resource.resource_type, resource.resource_name)

"""AlterConfigs (33): set exactly these settings of a topic, broker, group or client metrics; reset all others.

v0   all in one    v2   flexible

Clients should use IncrementalAlterConfigs, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.configs.authorization import authorize_resources
from qanat.api.configs.config_resources import ConfigDecisions, alter_each, carry_out, judge_change, missing_value
from qanat.api.request_context import RequestContext
from qanat.cluster.rejection import Rejection
from qanat.cluster.topic_configs import (
    ConfigPlan,
    decide_all_broker_configs,
    decide_all_client_metrics,
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

_DECISIONS = ConfigDecisions(
    decide_all_configs, decide_all_group_configs, decide_all_broker_configs, decide_all_client_metrics
)


def authorize(request: AlterConfigsRequest, access: AccessCheck) -> Verdict:
    """ALTER_CONFIGS on each resource."""
    return authorize_resources(
        request, Operation.ALTER_CONFIGS, access, lambda response: response.responses, AlterConfigsResourceResponse
    )


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
    return await carry_out(resource, wanted, _DECISIONS, context.broker, is_dry_run=is_dry_run)

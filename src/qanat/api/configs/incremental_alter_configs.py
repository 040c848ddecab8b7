"""IncrementalAlterConfigs (44): change some settings of a topic, a broker, all brokers, a group or client metrics.

v0   set, delete, append to a list, subtract from a list    v1   flexible

A change takes effect at once. A broker's dynamic settings are those of `broker.settings.dynamic_settings`.
Deviation: subtracting the last cleanup policy is refused (Kafka 4.1 then keeps everything).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.configs.authorization import authorize_resources
from qanat.api.configs.config_resources import ConfigDecisions, alter_each, carry_out, judge_change, missing_value
from qanat.api.request_context import RequestContext
from qanat.cluster.rejection import Rejection
from qanat.cluster.topic_configs import (
    ConfigAct,
    ConfigChange,
    ConfigPlan,
    decide_broker_configs,
    decide_client_metrics,
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
_DECISIONS = ConfigDecisions(decide_configs, decide_group_configs, decide_broker_configs, decide_client_metrics)


def authorize(request: IncrementalAlterConfigsRequest, access: AccessCheck) -> Verdict:
    """ALTER_CONFIGS on each resource."""
    return authorize_resources(
        request, Operation.ALTER_CONFIGS, access, lambda response: response.responses, AlterConfigsResourceResponse
    )


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
    return await carry_out(resource, changes[:_CHANGES_MAX], _DECISIONS, context.broker, is_dry_run=is_dry_run)


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

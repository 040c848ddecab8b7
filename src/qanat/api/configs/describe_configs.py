"""DescribeConfigs (32): the settings of topics, brokers, groups and client metrics, with their sources and meanings.

v1   sources and synonyms (older versions are not served)    v3   types and documentation    v4   flexible

No names, or an empty list, requests all settings; unknown names are left out. A broker shows its own settings only;
the empty name stands for the settings of all brokers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.configs.authorization import authorize_resources
from qanat.api.configs.broker_load import NAME as LOAD
from qanat.api.configs.broker_load import load_entry
from qanat.api.configs.client_metrics import client_metrics_entry
from qanat.api.configs.config_resources import (
    NO_GROUP,
    NO_SUBSCRIPTION,
    ResourceType,
    judge_broker,
    judge_topic,
    wrong_type,
)
from qanat.api.configs.dry_run_denials import NAME as DENIALS
from qanat.api.configs.dry_run_denials import denials_entry
from qanat.api.configs.group_lag import asks_for_lag, broker_entry, group_entry
from qanat.api.configs.queue_records import NAME as QUEUE_RECORDS
from qanat.api.configs.queue_records import queue_entry
from qanat.api.request_context import RequestContext
from qanat.broker.settings.client_metrics_settings import client_metrics_entries
from qanat.broker.settings.effective_settings import (
    SettingEntry,
    broker_entries,
    entries_for_all,
    layers_of,
    topic_entries,
)
from qanat.cluster.rejection import Rejection
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: DescribeConfigsRequest, access: AccessCheck) -> Verdict:
    """DESCRIBE_CONFIGS on each resource."""
    return authorize_resources(
        request, Operation.DESCRIBE_CONFIGS, access, lambda response: response.results, DescribeConfigsResult
    )


async def handle(request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    if any(asks_for_lag(resource) for resource in request.resources):
        await context.broker.group_lag.ready()
    asks_for_load = any(_is_own(one, context) and LOAD in (one.configuration_keys or ()) for one in request.resources)
    load = await load_entry(context.broker) if asks_for_load else None
    return DescribeConfigsResponse(
        results=[
            _describe(resource, request, context, load) async for resource in context.yielder.over(request.resources)
        ]
    )


def _is_own(resource: DescribeConfigsResource, context: RequestContext) -> bool:
    """Whether a resource is this broker."""
    return resource.resource_type == ResourceType.BROKER and resource.resource_name == str(context.broker.node_id)


def _describe(
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
    context: RequestContext,
    load: SettingEntry | None,
) -> DescribeConfigsResult:
    found = _entries(resource, context)
    if isinstance(found, Rejection):
        return DescribeConfigsResult(found.code, found.message, resource.resource_type, resource.resource_name)
    asked = dict.fromkeys(resource.configuration_keys or ())
    is_broker = resource.resource_type == ResourceType.BROKER and resource.resource_name
    if is_broker and DENIALS in asked and (entry := denials_entry(context.broker)) is not None:
        found.append(entry)
    if is_broker and (entry := client_metrics_entry(context.broker, asked)) is not None:
        found.append(entry)
    if asks_for_lag(resource) and (entry := _lag(resource, context)) is not None:
        found.append(entry)
    if LOAD in asked and load is not None and _is_own(resource, context):
        found.append(load)
    if QUEUE_RECORDS in asked and resource.resource_type == ResourceType.GROUP:
        entry = queue_entry(context.broker, resource.resource_name)
        found += [] if entry is None else [entry]
    configs = [_config(entry, request) for entry in found if not asked or entry.name in asked]
    return DescribeConfigsResult(0, "", resource.resource_type, resource.resource_name, configs)


def _lag(resource: DescribeConfigsResource, context: RequestContext) -> SettingEntry | None:
    if resource.resource_type == ResourceType.GROUP:
        return group_entry(context.broker, resource.resource_name)
    if resource.resource_type == ResourceType.BROKER and resource.resource_name:
        return broker_entry(context.broker)
    return None


def _entries(resource: DescribeConfigsResource, context: RequestContext) -> list[SettingEntry] | Rejection:
    name, broker = resource.resource_name, context.broker
    image = broker.metadata.image
    if resource.resource_type == ResourceType.TOPIC:
        return judge_topic(name, image) or topic_entries(image.overrides(name), layers_of(broker.current_settings))
    if resource.resource_type == ResourceType.BROKER:
        if not name:
            return entries_for_all(broker.current_settings)
        return judge_broker(name, broker, f"{broker.node_id} or empty string") or broker_entries(
            broker.current_settings
        )
    if resource.resource_type == ResourceType.GROUP:
        return broker.group_configs.entries(name) if name else NO_GROUP
    if resource.resource_type == ResourceType.CLIENT_METRICS:
        return client_metrics_entries(image.client_metrics.get(name, {})) if name else NO_SUBSCRIPTION
    return wrong_type(resource.resource_type)


def _config(entry: SettingEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        entry.name,
        entry.value,
        entry.is_read_only,
        entry.source,
        is_sensitive=False,
        synonyms=[DescribeConfigsSynonym(*synonym) for synonym in synonyms],
        config_type=entry.kind,
        documentation=entry.meaning if request.include_documentation else None,
    )

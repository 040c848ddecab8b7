"""Administration of settings of topics, brokers, groups and subscriptions to client metrics, under Kafka's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from qanat.api.configs.config_resources import ResourceType
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.inputs import Parameters, RequestBody
from qanat.servers.http.operations import Operation
from qanat.servers.http.problems import Problem, check
from qanat.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from qanat.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from qanat.wire.kafka.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from qanat.wire.kafka.registry import ApiKey

ConfigChanges = dict[str, str | int | float | bool | None]
_SET, _DELETE = 0, 1
_KINDS: Mapping[str, ResourceType] = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "groups": ResourceType.GROUP,
    "client-metrics": ResourceType.CLIENT_METRICS,
}
_SOURCES: Mapping[int, str] = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "start of the broker",
    5: "default",
    7: "client metrics",
    8: "group",
}
ALL_BROKERS = "all"


class ConfigsQuery(Parameters, frozen=True):
    """Which settings."""

    documentation: bool = False
    """Whether to add each setting's meaning."""


class ConfigView(msgspec.Struct, omit_defaults=True):
    """One setting in force."""

    name: str
    value: str | None
    """None where it is secret, or not set."""
    source: str
    """Where it was set."""
    read_only: bool = False
    sensitive: bool = False
    documentation: str | None = None


class Configs(msgspec.Struct):
    """The settings of something."""

    kind: str
    name: str
    configs: list[ConfigView]


class ConfigNames(msgspec.Struct):
    """What of a kind has settings."""

    kind: str
    names: list[str]


class ConfigsToAlter(RequestBody, frozen=True):
    """Settings to change."""

    configs: ConfigChanges
    """Settings under Kafka's names; null resets to the default."""
    validate_only: bool = False
    """Only check whether they could change."""


class ConfigsAltered(msgspec.Struct):
    """What was done."""

    kind: str
    name: str
    done: Literal["altered", "validated"]


def _kind(exchange: Exchange) -> ResourceType:
    kind = _KINDS.get(exchange.path["kind"])
    if kind is None:
        raise Problem(404, f"{exchange.path['kind']} have no settings here; {', '.join(_KINDS)} have")
    return kind


def _name(exchange: Exchange, kind: ResourceType) -> str:
    """The name in the protocol; all brokers together have the empty one."""
    name = exchange.path["name"]
    return "" if kind is ResourceType.BROKER and name == ALL_BROKERS else name


async def list_configured(exchange: Exchange) -> ConfigNames:
    kind = _kind(exchange)
    response: ListConfigResourcesResponse = await exchange.context.gateway.call(
        exchange.caller, ApiKey.LIST_CONFIG_RESOURCES, ListConfigResourcesRequest([int(kind)])
    )
    check(response.error_code, f"names of {exchange.path['kind']}")
    return ConfigNames(exchange.path["kind"], sorted(one.resource_name for one in response.config_resources))


async def describe_configs(exchange: Exchange) -> Configs:
    query: ConfigsQuery = exchange.query
    kind = _kind(exchange)
    resource = DescribeConfigsResource(kind, _name(exchange, kind), None)
    request = DescribeConfigsRequest([resource], include_documentation=query.documentation)
    response: DescribeConfigsResponse = await exchange.context.gateway.call(
        exchange.caller, ApiKey.DESCRIBE_CONFIGS, request, _where(exchange, kind)
    )
    result = response.results[0]
    check(result.error_code, f"settings of {exchange.path['kind']} {exchange.path['name']}", result.error_message)
    rows = [
        ConfigView(
            row.name,
            row.value,
            _SOURCES.get(row.config_source, str(row.config_source)),
            row.read_only,
            row.is_sensitive,
            row.documentation if query.documentation else None,
        )
        for row in result.configs
    ]
    return Configs(exchange.path["kind"], exchange.path["name"], rows)


async def alter_configs(exchange: Exchange) -> ConfigsAltered:
    wanted: ConfigsToAlter = exchange.body
    kind = _kind(exchange)
    await alter(exchange, kind, _name(exchange, kind), set_configs(wanted.configs), validate_only=wanted.validate_only)
    return ConfigsAltered(
        exchange.path["kind"], exchange.path["name"], "validated" if wanted.validate_only else "altered"
    )


def set_configs(changes: Mapping[str, str | float | bool | None]) -> list[AlterableConfig]:
    """Changes as Kafka sends them; null deletes."""
    return [
        AlterableConfig(name, _DELETE, None) if value is None else AlterableConfig(name, _SET, spelled(value))
        for name, value in changes.items()
    ]


def spelled(value: str | float | bool) -> str:
    """A setting's value as Kafka spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


async def alter(
    exchange: Exchange,
    kind: ResourceType,
    name: str,
    changes: Iterable[AlterableConfig],
    *,
    validate_only: bool = False,
) -> None:
    """Change settings; raises a problem where they are refused."""
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, list(changes))], validate_only)
    response: IncrementalAlterConfigsResponse = await exchange.context.gateway.call(
        exchange.caller, ApiKey.INCREMENTAL_ALTER_CONFIGS, request, _where(exchange, kind, name)
    )
    result = response.responses[0]
    check(result.error_code, f"settings of {kind.name.lower()} {name or ALL_BROKERS}", result.error_message)


def _where(exchange: Exchange, kind: ResourceType, name: str | None = None) -> int | None:
    """The node to ask: only a broker itself knows its own settings."""
    name = exchange.path["name"] if name is None else name
    if kind is ResourceType.BROKER and name.isascii() and name.isdigit():
        number = int(name)
        return number if number in exchange.context.broker.metadata.image.brokers else None
    return None


OPERATIONS = (
    Operation(
        "GET",
        "/api/v1/configs/{kind}",
        list_configured,
        "List what of a kind has settings: topics, brokers, groups with settings of their own, client-metrics",
        "configs",
        answer=ConfigNames,
        choices={"kind": tuple(_KINDS)},
    ),
    Operation(
        "GET",
        "/api/v1/configs/{kind}/{name}",
        describe_configs,
        "Settings in force of a topic (kind topics), broker (brokers; name all), group (groups) or client-metrics",
        "configs",
        query=ConfigsQuery,
        answer=Configs,
        choices={"kind": tuple(_KINDS)},
    ),
    Operation(
        "PATCH",
        "/api/v1/configs/{kind}/{name}",
        alter_configs,
        "Change settings of a topic, a broker, all brokers, a group or client-metrics",
        "configs",
        body=ConfigsToAlter,
        answer=ConfigsAltered,
        choices={"kind": tuple(_KINDS)},
    ),
)

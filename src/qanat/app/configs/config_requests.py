"""Settings over the protocol, of topics, brokers, groups, client metrics: DescribeConfigs, IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.terminal.listing import Row
from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.faults import check
from qanat.connection.link import Link
from qanat.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from qanat.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from qanat.wire.kafka.registry import ApiKey

TOPIC = 2
BROKER = 4
CLIENT_METRICS = 16
GROUP = 32
KINDS = {"topic": TOPIC, "broker": BROKER, "group": GROUP, "client-metrics": CLIENT_METRICS}

_SET, _DELETE = 0, 1
ALTER_COLUMNS = ("name", "setting", "value", "done")


async def alter_configs(
    cluster: Cluster, kind: int, name: str, changes: Mapping[str, str], deleted: Sequence[str], *, is_dry_run: bool
) -> list[Row]:
    """Set some settings and reset others to their default, all or none; a row for each, in `ALTER_COLUMNS`."""
    configs = [AlterableConfig(setting, _SET, value) for setting, value in changes.items()]
    configs += [AlterableConfig(setting, _DELETE, None) for setting in deleted]
    if not configs:
        raise WrongArgumentError("nothing to change: give name=value, or --delete name")
    deadline = cluster.deadline()
    if kind == TOPIC:
        await cluster.topic(name, deadline, may_lack_leaders=True)  # An unknown topic gets its own error.
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, configs)], is_dry_run)
    link = await _link(cluster, kind, name, deadline)
    response: IncrementalAlterConfigsResponse = await link.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, deadline)
    for result in response.responses:
        check(f"cannot change {name}", result.error_code, result.error_message)
    done = "would have" if is_dry_run else "has"
    return [{"name": name, "setting": one.name, "value": one.value, "done": done} for one in configs]


def alter_sentence(row: Row) -> str:
    what = f"{row['setting']}={row['value']}" if row["value"] is not None else f"{row['setting']} by default"
    return f"{row['name']} {row['done']} {what}"


async def describe_configs(
    cluster: Cluster, kind: int, name: str, wanted: list[str] | None = None
) -> list[DescribeConfigsResourceResult]:
    """All settings of a resource by name, or the `wanted` ones."""
    deadline = cluster.deadline()
    if kind == TOPIC:
        await cluster.topic(name, deadline, may_lack_leaders=True)  # An unknown topic gets its own error.
    resource = DescribeConfigsResource(kind, name, wanted)
    request = DescribeConfigsRequest([resource], include_synonyms=True, include_documentation=True)
    link = await _link(cluster, kind, name, deadline)
    response: DescribeConfigsResponse = await link.call(ApiKey.DESCRIBE_CONFIGS, request, deadline)
    for result in response.results:
        check(f"cannot read the settings of {name}", result.error_code, result.error_message)
    return sorted((config for result in response.results for config in result.configs), key=lambda one: one.name)


async def _link(cluster: Cluster, kind: int, name: str, deadline: Deadline) -> Link:
    """The broker itself for a broker's settings; any broker for topics and groups."""
    if kind != BROKER:
        return await cluster.any_link(deadline)
    if not name.isdigit():
        raise WrongArgumentError(f"a broker is named by its number, not {name!r}")
    return await cluster.node_link(int(name), deadline)

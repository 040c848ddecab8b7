"""The inventory of a cluster: its id, topics with settings and partitions, positions of groups."""

from __future__ import annotations

import re
from collections.abc import Iterable

from qanat.connection.cluster import Cluster
from qanat.connection.committed import committed_offsets
from qanat.connection.deadline import Deadline
from qanat.connection.faults import check
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.spark.lake.commits import TopicState
from qanat.spark.reads.offset_lookup import Lookups
from qanat.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from qanat.wire.kafka.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from qanat.wire.kafka.registry import ApiKey

TOPIC = 2
_SET_FOR_THE_TOPIC = 1
"""DescribeConfigs' source of a topic's own setting, neither the broker's nor a default."""
OWN_TOPICS = re.compile(r"__.*|qanat-(?:mirror|replay)\..*")
"""Internal topics of brokers and of copies, which are never copied."""
OWN_GROUPS = re.compile(r"qanat-spark-.*")

Groups = dict[str, dict[TopicPartition, int]]


def cluster_id(lookups: Lookups) -> str:
    """The id of a cluster, which never changes."""
    found = lookups.ask(lambda cluster, deadline: cluster.metadata([], deadline)).cluster_id
    return found or "without-id"


def topics(lookups: Lookups, names: Iterable[str]) -> dict[str, TopicState]:
    """The state of these topics, without those that do not exist."""
    wanted = sorted(set(names))

    async def ask(cluster: Cluster, deadline: Deadline) -> dict[str, TopicState]:
        if not wanted:
            return {}
        response = await cluster.metadata(wanted, deadline)
        there = {one.name: one for one in response.topics if one.name and one.error_code == ErrorCode.NONE}
        settings = await _settings(cluster, list(there), deadline)
        return {
            name: TopicState(
                one.topic_id.hex(),
                len(one.partitions),
                max((len(part.replica_nodes) for part in one.partitions), default=1),
                settings.get(name, {}),
            )
            for name, one in there.items()
        }

    return lookups.ask(ask)


async def _settings(cluster: Cluster, names: list[str], deadline: Deadline) -> dict[str, dict[str, str]]:
    if not names:
        return {}
    request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, name, None) for name in names])
    response: DescribeConfigsResponse = await cluster.call(ApiKey.DESCRIBE_CONFIGS, request, deadline)
    found: dict[str, dict[str, str]] = {}
    for result in response.results:
        check(f"cannot read the settings of {result.resource_name}", result.error_code, result.error_message)
        found[result.resource_name] = {
            one.name: one.value
            for one in sorted(result.configs, key=lambda one: one.name)
            if one.config_source == _SET_FOR_THE_TOPIC and one.value is not None
        }
    return found


def group_names(lookups: Lookups) -> list[str]:
    """Every group of the cluster except those of Spark queries."""

    async def ask(cluster: Cluster, deadline: Deadline) -> set[str]:
        found: set[str] = set()
        for broker in (await cluster.metadata([], deadline)).brokers:
            link = await cluster.node_link(broker.node_id, deadline)
            response: ListGroupsResponse = await link.call(ApiKey.LIST_GROUPS, ListGroupsRequest(), deadline)
            check(f"groups of broker {broker.node_id}", response.error_code)
            # Share groups commit no offsets that could be restored.
            found |= {one.group_id for one in response.groups if one.protocol_type in ("", "consumer")}
        return found

    return sorted(name for name in lookups.ask(ask) if name and not OWN_GROUPS.fullmatch(name))


def groups(lookups: Lookups, only: Iterable[str], pattern: str = ".*", leave_out: Iterable[str] = ()) -> Groups:
    """The positions of groups in these topics, without groups that have none."""
    wanted, left_out = set(only), set(leave_out)
    names = [name for name in group_names(lookups) if re.fullmatch(pattern, name) and name not in left_out]

    async def ask(cluster: Cluster, deadline: Deadline) -> Groups:
        found: Groups = {}
        for name in names:
            offsets = await committed_offsets(cluster, name, deadline)
            in_topics = {at: offset for at, offset in offsets.items() if at.topic in wanted}
            if in_topics:
                found[name] = in_topics
        return found

    return lookups.ask(ask) if wanted and names else {}


def topic_names(lookups: Lookups) -> list[str]:
    """Every topic of the cluster."""
    response = lookups.ask(lambda cluster, deadline: cluster.metadata(None, deadline))
    return sorted(topic.name for topic in response.topics if topic.name)

"""Provision of topics: created, extended and configured as required."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.faults import RefusedError, check
from qanat.model.error_codes import ErrorCode
from qanat.spark.copying.inventory import TOPIC, topics
from qanat.spark.lake.commits import TopicState
from qanat.spark.reads.offset_lookup import Lookups
from qanat.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from qanat.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from qanat.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from qanat.wire.kafka.registry import ApiKey

_log = logging.getLogger(__name__)

_BROKERS_DEFAULT = -1
_SET, _DELETE = 0, 1

OF_ONE_CLUSTER = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
"""Settings that name brokers of one cluster."""


def provide(lookups: Lookups, name: str, partitions: int, settings: Mapping[str, str]) -> TopicState:
    """Provide a topic with at least so many partitions and exactly these settings of its own; returns its state."""
    wanted = {key: value for key, value in settings.items() if key not in OF_ONE_CLUSTER}
    there = topics(lookups, [name]).get(name)
    if there is None:
        # Created without settings: one that this cluster does not know must not block the others.
        lookups.run(lambda cluster, deadline: _create(cluster, name, partitions, deadline))
        there = topics(lookups, [name])[name]
    if there.partitions < partitions:
        lookups.run(lambda cluster, deadline: _grow(cluster, name, partitions, deadline))
    follow(lookups, name, there.settings, wanted)
    return topics(lookups, [name])[name]


def follow(lookups: Lookups, name: str, current: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Change a topic's settings from the current to the wanted ones; returns whether anything changed."""
    changes = [AlterableConfig(key, _SET, value) for key, value in wanted.items() if current.get(key) != value]
    changes += [AlterableConfig(key, _DELETE, None) for key in current if key not in wanted]
    if not changes:
        return False
    try:
        lookups.run(lambda cluster, deadline: _alter(cluster, name, changes, deadline))
    except RefusedError:
        # The protocol applies all or none; so each is tried alone, and this cluster gets those that it accepts.
        for one in changes:
            try:
                lookups.run(lambda cluster, deadline, one=one: _alter(cluster, name, [one], deadline))  # type: ignore[misc]
            except RefusedError as fault:
                _log.warning("setting %s of topic %s is not changed: %s", one.name, name, fault)
    return True


async def _create(cluster: Cluster, name: str, partitions: int, deadline: Deadline) -> None:
    request = CreateTopicsRequest(
        [CreatableTopic(name, partitions, _BROKERS_DEFAULT, configs=[])], timeout_ms=deadline.left_ms
    )
    response: CreateTopicsResponse = await cluster.call_controller(ApiKey.CREATE_TOPICS, request, deadline)
    for result in response.topics:
        if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            check(f"cannot create topic {name}", result.error_code, result.error_message)
    await cluster.created_topic(name, deadline)


async def _grow(cluster: Cluster, name: str, partitions: int, deadline: Deadline) -> None:
    wanted = [CreatePartitionsTopic(name, partitions, None)]
    request = CreatePartitionsRequest(wanted, timeout_ms=deadline.left_ms, validate_only=False)
    response: CreatePartitionsResponse = await cluster.call_controller(ApiKey.CREATE_PARTITIONS, request, deadline)
    for result in response.results:
        check(f"cannot give topic {name} {partitions} partitions", result.error_code, result.error_message)
    await cluster.topic(name, deadline)


async def _alter(cluster: Cluster, name: str, changes: list[AlterableConfig], deadline: Deadline) -> None:
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC, name, changes)], False)
    response: IncrementalAlterConfigsResponse = await cluster.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, deadline)
    for result in response.responses:
        check(f"cannot change the settings of topic {name}", result.error_code, result.error_message)

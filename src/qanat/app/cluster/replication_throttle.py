"""Replication throttles (KIP-73): topics name the replicas concerned, brokers have a rate.

Commands that move partitions set both, as Kafka's own tool does, and remove both when the moves are done. Without
waiting, `qanat cluster throttle --off` removes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.cluster.cluster_view import ClusterView, view_of
from qanat.app.configs.config_requests import BROKER, TOPIC
from qanat.connection.cluster import Cluster
from qanat.connection.faults import check
from qanat.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from qanat.wire.kafka.registry import ApiKey

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
Moves = Mapping[tuple[str, int], Sequence[int] | None]
_SET, _DELETE, _APPEND = 0, 1, 2
_ALL_BROKERS = ""
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_RATE = re.compile(r"(\d+)\s*([kmg]?)(?:i?b)?(?:/s)?", re.IGNORECASE)


def parse_rate(text: str) -> int:
    """Bytes a second out of `100MB`; raises `WrongArgumentError`."""
    found = _RATE.fullmatch(text.strip())
    if found is None or not int(found[1]):
        raise WrongArgumentError(f"{text!r} is not a rate: write bytes a second, such as 50000000 or 50MB")
    return int(found[1]) * _UNITS[found[2].lower()]


async def impose(cluster: Cluster, moves: Moves, view: ClusterView, limit: int) -> None:
    """Limit the rate of these moves, before they begin."""
    now = {(one.topic, one.number): one.replicas for one in view.partitions}
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for (topic, number), target in moves.items():
        present = now.get((topic, number), ())
        leaders.setdefault(topic, []).extend(f"{number}:{node_id}" for node_id in present)
        new = [node_id for node_id in target or () if node_id not in present]
        followers.setdefault(topic, []).extend(f"{number}:{node_id}" for node_id in new)
    resources = [
        AlterConfigsResource(
            TOPIC,
            topic,
            [
                AlterableConfig(name, _APPEND, ",".join(named[topic]))
                for name, named in ((LEADERS, leaders), (FOLLOWERS, followers))
                if named[topic]
            ],
        )
        for topic in leaders
        if topic in {one.topic for one in view.partitions}
    ]
    await _alter(cluster, [one for one in resources if one.configs])
    await set_rate(cluster, limit)


async def lift(cluster: Cluster, topics: Sequence[str]) -> None:
    """Remove the throttled replicas of these topics, and the rate."""
    await _alter(cluster, [_deleted(TOPIC, topic, (LEADERS, FOLLOWERS)) for topic in dict.fromkeys(topics)])
    await _alter(cluster, [_deleted(BROKER, _ALL_BROKERS, RATES)])


async def lift_all(cluster: Cluster) -> None:
    view = await view_of(cluster)
    await lift(cluster, [one.topic for one in view.partitions])


async def set_rate(cluster: Cluster, limit: int) -> None:
    configs = [AlterableConfig(name, _SET, str(limit)) for name in RATES]
    await _alter(cluster, [AlterConfigsResource(BROKER, _ALL_BROKERS, configs)])


def _deleted(kind: int, name: str, settings: Sequence[str]) -> AlterConfigsResource:
    return AlterConfigsResource(kind, name, [AlterableConfig(setting, _DELETE, None) for setting in settings])


async def _alter(cluster: Cluster, resources: list[AlterConfigsResource]) -> None:
    if not resources:
        return
    request = IncrementalAlterConfigsRequest(resources)
    answer: IncrementalAlterConfigsResponse = await cluster.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
    for one in answer.responses:
        check(f"cannot throttle {one.resource_name or 'brokers'}", one.error_code, one.error_message)

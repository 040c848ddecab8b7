"""Moves at a limited rate (KIP-73): `--throttle` of whatever moves partitions, and `qanat cluster throttle`.

As Kafka's own tool does it: the topics name the replicas concerned, the brokers have a rate. Both are removed when
what was to be moved has been moved, or by `qanat cluster throttle --off`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Annotated

from cyclopts import Parameter

from qanat.app.cluster.view import ClusterView, view_of
from qanat.app.configs import BROKER, TOPIC, describe_configs
from qanat.app.session import HERE, Target, WrongArgumentError, run
from qanat.app.terminal.listing import Output, Row, print_rows
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
_UNLIMITED = "unlimited"
_SETTLED_S, _LOOK_S = 3.0, 0.05
_COLUMNS = ("broker", *RATES)
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_RATE = re.compile(r"(\d+)\s*([kmg]?)(?:i?b)?(?:/s)?", re.IGNORECASE)


def throttle(
    rate: str | None = None,
    /,
    *,
    off: Annotated[bool, Parameter(negative="")] = False,
    output: Output = "table",
    target: Target = HERE,
) -> int:
    """Show, change or lift the rate at which replicas that are being moved catch up.

        qanat cluster throttle
        qanat cluster throttle 100MB
        qanat cluster throttle --off

    Parameters
    ----------
    rate:
        Bytes a second of each broker, in either direction; k, M and G are understood.
    off:
        Lift it: no rate, and no topic names replicas any more.
    output:
        `table` for people, the others for programs.
    """
    if rate is not None and off:
        raise WrongArgumentError("give a rate or --off, not both")
    wanted = None
    if rate is not None:
        limit = parse_rate(rate)
        run(target, lambda cluster: _set_rate(cluster, limit))
        wanted = str(limit)
    elif off:
        run(target, _lift_all)
        wanted = _UNLIMITED
    print_rows(run(target, lambda cluster: _settled_rows(cluster, wanted)), _COLUMNS, output)
    return 0


def parse_rate(text: str) -> int:
    """Bytes a second out of `100MB`; raises `WrongArgumentError`."""
    found = _RATE.fullmatch(text.strip())
    if found is None or not int(found[1]):
        raise WrongArgumentError(f"{text!r} is no rate: write bytes a second, such as 50000000 or 50MB")
    return int(found[1]) * _UNITS[found[2].lower()]


async def impose(cluster: Cluster, moves: Moves, view: ClusterView, limit: int) -> None:
    """Let these moves, which have not begun, go no faster than that."""
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
    await _set_rate(cluster, limit)


async def lift(cluster: Cluster, topics: Sequence[str]) -> None:
    """No limit any more: not for these topics, and no rate."""
    await _alter(cluster, [_deleted(TOPIC, topic, (LEADERS, FOLLOWERS)) for topic in dict.fromkeys(topics)])
    await _alter(cluster, [_deleted(BROKER, _ALL_BROKERS, RATES)])


async def _lift_all(cluster: Cluster) -> None:
    view = await view_of(cluster)
    await lift(cluster, [one.topic for one in view.partitions])


async def _set_rate(cluster: Cluster, limit: int) -> None:
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


async def _settled_rows(cluster: Cluster, wanted: str | None) -> list[Row]:
    """What holds; brokers hear of a change one after the other, so after one a while is given to them."""
    deadline = asyncio.get_running_loop().time() + _SETTLED_S
    while True:
        rows = await _rows(cluster)
        is_settled = wanted is None or all(row[name] == wanted for row in rows for name in RATES)
        if is_settled or asyncio.get_running_loop().time() > deadline:
            return rows
        await asyncio.sleep(_LOOK_S)


async def _rows(cluster: Cluster) -> list[Row]:
    rows: list[Row] = []
    for broker in (await view_of(cluster)).brokers:
        found = {one.name: one.value for one in await describe_configs(cluster, BROKER, str(broker.node_id))}
        rows.append({"broker": broker.node_id, **{name: _told(found.get(name)) for name in RATES}})
    return rows


def _told(value: str | None) -> str:
    return _UNLIMITED if value in (None, str(2**63 - 1)) else str(value)

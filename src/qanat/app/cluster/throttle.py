"""`qanat cluster throttle`: the rate at which moved replicas are copied."""

from __future__ import annotations

import asyncio
from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target, run
from qanat.app.cluster.cluster_view import view_of
from qanat.app.cluster.replication_throttle import RATES, lift_all, parse_rate, set_rate
from qanat.app.configs.config_requests import BROKER, describe_configs
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.connection.cluster import Cluster

_UNLIMITED = "unlimited"
_SETTLED_S, _LOOK_S = 3.0, 0.05
_COLUMNS = ("broker", *RATES)


def throttle(
    rate: str | None = None,
    /,
    *,
    off: Annotated[bool, Parameter(negative="")] = False,
    output: Output = "table",
    target: Target = HERE,
) -> int:
    """Show, change or lift the rate at which moved replicas catch up.

        qanat cluster throttle
        qanat cluster throttle 100MB
        qanat cluster throttle --off

    Parameters
    ----------
    rate:
        Bytes a second of each broker, in either direction; with k, M or G.
    off:
        Lift it: remove the rate, and the throttled replicas of every topic.
    output:
        `table` for people, the others for programs.
    """
    if rate is not None and off:
        raise WrongArgumentError("give a rate or --off, not both")
    wanted = None
    if rate is not None:
        limit = parse_rate(rate)
        run(target, lambda cluster: set_rate(cluster, limit))
        wanted = str(limit)
    elif off:
        run(target, lift_all)
        wanted = _UNLIMITED
    print_rows(run(target, lambda cluster: _settled_rows(cluster, wanted)), _COLUMNS, output)
    return 0


async def _settled_rows(cluster: Cluster, wanted: str | None) -> list[Row]:
    """The rates in force; after a change, waits until every broker has applied it."""
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
        rows.append({"broker": broker.node_id, **{name: _shown_rate(found.get(name)) for name in RATES}})
    return rows


def _shown_rate(value: str | None) -> str:
    return _UNLIMITED if value in (None, str(2**63 - 1)) else str(value)

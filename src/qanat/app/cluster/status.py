"""`qanat cluster status`: brokers, and whether everything is where it should be."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from cyclopts import Parameter

from qanat.app.cluster.view import ClusterView, view_of
from qanat.app.listing import Row, print_rows
from qanat.app.session import HERE, Target, run
from qanat.connection.cluster import Cluster

_COLUMNS = ("id", "address", "pid", "rack", "controller", "leads", "holds", "in_sync")


def status(
    *,
    output: Annotated[Literal["table", "json"], Parameter(name=["--output", "-o"])] = "table",
    target: Target = HERE,
) -> int:
    """Show the brokers of a cluster and whether every partition has a leader and all its replicas.

        qanat cluster status
        qanat cluster status -o json

    Exit codes: 0 all is well, 1 some partition has no leader or lacks a replica.

    Parameters
    ----------
    output:
        `table` for people, `json` for programs.
    """

    async def work(cluster: Cluster) -> ClusterView:
        return await view_of(cluster, with_processes=True)

    view = run(target, work)
    if output == "json":
        print(json.dumps(_document(view), indent=2))
    else:
        print_rows(_rows(view), _COLUMNS, "table", spare=("rack", "in_sync"))
        print()
        print(_sentence(view))
        if view.level is not None and view.level.now < view.level.newest:
            print(f"format level {view.level.now}; {view.level.newest} is known: qanat cluster upgrade")
    return 1 if view.offline or view.under_replicated else 0


def _rows(view: ClusterView) -> list[Row]:
    return [
        {
            "id": one.node_id,
            "address": one.address,
            "pid": one.pid,
            "rack": one.rack,
            "controller": one.is_controller,
            "leads": one.leads,
            "holds": one.holds,
            "in_sync": one.in_sync,
        }
        for one in view.brokers
    ]


def _document(view: ClusterView) -> dict[str, object]:
    return {
        "cluster_id": view.cluster_id,
        "controller": view.controller,
        "brokers": _rows(view),
        "missing_brokers": view.missing_brokers,
        "topics": view.topics,
        "partitions": len(view.partitions),
        "under_replicated": view.under_replicated,
        "offline": view.offline,
        "format_level": None if view.level is None else view.level.now,
        "format_level_newest": None if view.level is None else view.level.newest,
        "is_healthy": not (view.offline or view.under_replicated),
    }


def _sentence(view: ClusterView) -> str:
    about = f"{view.topics} topics, {len(view.partitions)} partitions"
    if not (view.offline or view.under_replicated):
        return f"{about}: every one has a leader and all its replicas in sync"
    text = f"{about}: {view.offline} without a leader, {view.under_replicated} with replicas missing"
    missing = view.missing_brokers
    if not missing:
        return text
    return f"{text}; not there: broker{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"

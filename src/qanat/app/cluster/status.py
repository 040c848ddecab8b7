"""`qanat cluster status`: brokers, leaders and missing replicas of a cluster."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from cyclopts import Parameter

from qanat.app.client.target import HERE, Target, run
from qanat.app.cluster.cluster_view import ClusterView, view_of
from qanat.app.cluster.replica_faults import Faults, damage_text, faults_of
from qanat.app.terminal.listing import Row, print_rows
from qanat.connection.cluster import Cluster

_COLUMNS = ("id", "address", "pid", "rack", "controller", "leads", "holds", "in_sync")
_FAULTY_COLUMNS = ("topic", "partition", "broker", "state", "offsets", "outlook", "reason")


def status(
    *,
    output: Annotated[Literal["table", "json"], Parameter(name=["--output", "-o"])] = "table",
    target: Target = HERE,
) -> int:
    """Show the brokers of a cluster and whether every partition has a leader and all its replicas.

    Lists damaged and offline replicas with the exact offsets and what happens to them, and partitions without a leader
    with what their elections wait for.

        qanat cluster status
        qanat cluster status -o json

    Exit codes: 0 all is well, 1 some partition has no leader, lacks a replica or has a damaged one.

    Parameters
    ----------
    output:
        `table` for people, `json` for programs.
    """

    async def work(cluster: Cluster) -> tuple[ClusterView, Faults]:
        view = await view_of(cluster, with_processes=True)
        return view, await faults_of(cluster, view)

    view, faults = run(target, work)
    if output == "json":
        print(json.dumps(document(view, faults), indent=2))
    else:
        print_rows(_rows(view), _COLUMNS, "table", spare=("rack", "in_sync"))
        print()
        print(_sentence(view))
        _print_faults(faults)
        if view.level is not None and view.level.now < view.level.newest:
            print(f"format level {view.level.now}; {view.level.newest} is known: qanat cluster upgrade")
    return 0 if _is_healthy(view, faults) else 1


def _is_healthy(view: ClusterView, faults: Faults) -> bool:
    return not (view.offline or view.under_replicated or faults.replicas or faults.waiting)


def _print_faults(faults: Faults) -> None:
    for wait in faults.waiting:
        at = f"{wait.partition.topic}:{wait.partition.number}"
        hint = f": qanat cluster elect {at} --unclean shows what would be lost" if wait.is_for_operator else ""
        print(f"{at} has no leader and {wait.summary}{hint}")
    if faults.replicas:
        print()
        rows = [
            {**row, "offsets": damage_text(one.ranges)}
            for one, row in zip(faults.replicas, _faulty_rows(faults), strict=True)
        ]
        print_rows(rows, _FAULTY_COLUMNS, "table", spare=("reason",))


def _faulty_rows(faults: Faults) -> list[Row]:
    return [
        {
            "topic": one.partition.topic,
            "partition": one.partition.number,
            "broker": one.node_id,
            "state": one.state,
            "outlook": faults.outlook(one),
            "reason": one.reason,
        }
        for one in faults.replicas
    ]


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


def document(view: ClusterView, faults: Faults) -> dict[str, object]:
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
        "faulty_replicas": [
            {**row, "damaged_ranges": [list(one) for one in replica.ranges]}
            for replica, row in zip(faults.replicas, _faulty_rows(faults), strict=True)
        ],
        "waiting_elections": [
            {
                "topic": one.partition.topic,
                "partition": one.partition.number,
                "for_brokers": [*one.unproven, *one.gone],
                "for_operator": one.is_for_operator,
                "at_most_ms": one.left_ms,
            }
            for one in faults.waiting
        ],
        "is_healthy": _is_healthy(view, faults),
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

"""`qanat group lag`: the lag of all groups, as their coordinators collect it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from qanat.api.configs.group_lag import NAME
from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target
from qanat.app.configs.config_requests import BROKER, describe_configs
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.app.terminal.watch import ONCE, Watch, show
from qanat.connection.cluster import Cluster
from qanat.groups.lag.reports import GroupLag, LagReport

_COLUMNS = ("group", "state", "records", "seconds", "exact", "type", "coordinator")
State = Literal["ok", "warn", "rewound", "stalled", "stopped"]


def lag(
    groups: Annotated[list[str] | None, Parameter(name="group", negative="")] = None,
    /,
    *,
    state: Annotated[list[State] | None, Parameter(name=["--state", "-s"], negative="")] = None,
    sort: Literal["seconds", "records", "group"] = "seconds",
    limit: Annotated[int | None, Parameter(name=["--limit", "-n"])] = None,
    output: Output = "table",
    watch: Watch = ONCE,
    target: Target = HERE,
) -> None:
    """Show how far groups are behind, in records and seconds, the worst first.

        qanat group lag
        qanat group lag --state stopped --state stalled -o names
        qanat group lag --sort records -n 10 --watch

    Brokers collect it every `group.lag.interval.ms` while someone asks. `ok` keeps up; `warn` reads, and its lag does
    not fall; `rewound` was reset; `stalled` commits the same offset again and again; `stopped` does not commit. Where
    `exact` is false, a group has been behind for longer than brokers have looked: it waits at least so long.

    Parameters
    ----------
    groups:
        Names; without them all.
    state:
        Only groups in this state.
    sort:
        By what: the largest first, names in their order.
    limit:
        At most so many.
    output:
        `table` for people, the others for programs.
    """

    async def work(cluster: Cluster) -> list[Row]:
        rows = await collected(cluster)
        if groups and (unknown := [one for one in groups if all(row["group"] != one for row in rows)]):
            raise WrongArgumentError(
                f"there is no lag of group {unknown[0]}: it does not exist, or has committed nothing"
            )
        wanted = [
            row for row in rows if (not groups or row["group"] in groups) and (not state or row["state"] in state)
        ]
        return _sorted(wanted, sort)[:limit]

    show(target, watch, work, lambda rows: print_rows(rows, _COLUMNS, output, spare=("coordinator", "type", "exact")))


async def collected(cluster: Cluster) -> list[Row]:
    """A row per group, of all coordinators."""
    brokers = (await cluster.metadata([], cluster.deadline())).brokers
    rows: list[Row] = []
    is_collected = False
    for broker in brokers:
        for found in await describe_configs(cluster, BROKER, str(broker.node_id), [NAME]):
            is_collected = True
            report = msgspec.json.decode(found.value or "", type=LagReport)
            rows += [_row(one, report.node_id) for one in report.groups]
    if not is_collected:
        raise WrongArgumentError(
            "no broker collects lag: it is Apache Kafka, or group.lag.interval.ms is 0; "
            "qanat group describe shows the lag of one group"
        )
    return rows


def _row(one: GroupLag, node_id: int) -> Row:
    return {
        "group": one.group,
        "state": one.state,
        "records": one.records,
        "seconds": one.seconds,
        "exact": one.is_exact,
        "type": one.type,
        "coordinator": node_id,
    }


def _sorted(rows: list[Row], by: str) -> list[Row]:
    """By name, and then the largest first: the sort is stable."""
    rows = sorted(rows, key=lambda row: str(row["group"]))
    return rows if by == "group" else sorted(rows, key=lambda row: float(str(row[by])), reverse=True)

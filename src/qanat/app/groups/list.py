"""`qanat group list`: the groups of every broker."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.target import HERE, Target
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.app.terminal.watch import ONCE, Watch, show
from qanat.connection.cluster import Cluster
from qanat.connection.faults import check
from qanat.wire.kafka.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from qanat.wire.kafka.registry import ApiKey

_LIST_COLUMNS = ("group", "state", "protocol", "type", "coordinator")


def list_groups(
    *,
    state: Annotated[list[str] | None, Parameter(name=["--state", "-s"], negative="")] = None,
    type_: Annotated[list[str] | None, Parameter(name="--type", negative="")] = None,
    output: Output = "table",
    watch: Watch = ONCE,
    target: Target = HERE,
) -> None:
    """List consumer groups and share groups.

        qanat group list --state Empty -o names

    Parameters
    ----------
    state:
        Only groups in this state: Stable, Empty, PreparingRebalance, CompletingRebalance, Assigning, Reconciling.
    type_:
        Only groups of this type: classic, consumer, share.
    output:
        `table` for people, the others for programs.
    """

    show(
        target,
        watch,
        lambda cluster: listed(cluster, state or [], type_ or []),
        lambda rows: print_rows(rows, _LIST_COLUMNS, output, spare=("type", "coordinator")),
    )


async def listed(cluster: Cluster, states: list[str], types: list[str]) -> list[Row]:
    """The groups of every broker, sorted by name."""
    deadline = cluster.deadline()
    rows: list[Row] = []
    for broker in (await cluster.metadata([], deadline)).brokers:
        link = await cluster.node_link(broker.node_id, deadline)
        request = ListGroupsRequest(states, types)
        response: ListGroupsResponse = await link.call(ApiKey.LIST_GROUPS, request, deadline)
        check(f"groups of broker {broker.node_id}", response.error_code)
        rows += [
            {
                "group": one.group_id,
                "state": one.group_state,
                "protocol": one.protocol_type,
                "type": one.group_type,
                "coordinator": broker.node_id,
            }
            for one in response.groups
        ]
    return sorted(rows, key=lambda row: str(row["group"]))

"""`qanat cluster rebalance`: spread partitions and leaders evenly over all brokers."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.target import HERE, Target
from qanat.app.cluster.cluster_view import ClusterView
from qanat.app.cluster.partition_moves import carry_out
from qanat.app.terminal.listing import Output
from qanat.cluster.spreading import Plan, evened


def rebalance(
    *,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    throttle: str | None = None,
    wait: bool = True,
    output: Output = "table",
    target: Target = HERE,
) -> int:
    """Spread partitions and their leaders evenly over all brokers, with as few moves as possible.

        qanat cluster rebalance --dry-run
        qanat cluster rebalance

    Parameters
    ----------
    dry_run:
        Only list the moves.
    throttle:
        Bytes a second at which each broker copies new replicas, such as 50MB; lifted when all moves are done.
    wait:
        Whether to return only when all moves are done.
    output:
        `table` for people, the others for programs.
    """

    def decide(view: ClusterView) -> Plan:
        return evened(view.partitions, [one.node_id for one in view.brokers], view.racks)

    return carry_out(
        decide, output, target, throttle, is_dry_run=dry_run, wait=wait, nothing="everything is spread evenly already"
    )

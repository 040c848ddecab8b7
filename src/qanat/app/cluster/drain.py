"""`qanat cluster drain`: move every replica away from a broker."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target
from qanat.app.cluster.cluster_view import ClusterView
from qanat.app.cluster.partition_moves import carry_out, shown
from qanat.app.terminal.listing import Output
from qanat.cluster.spreading import Plan, drained


def drain(
    broker: int,
    /,
    *,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    throttle: str | None = None,
    wait: bool = True,
    output: Output = "table",
    target: Target = HERE,
) -> int:
    """Move all replicas away from a broker, so that it can leave the cluster.

    Where no other broker can take a replica, the partition gets one fewer, and the command says so. A broker that died
    for good can be drained as well: the other replicas have its data.

        qanat cluster drain 2 --dry-run
        qanat cluster drain 2

    Parameters
    ----------
    broker:
        Its id.
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
        known = [one.node_id for one in view.brokers]
        if broker not in known and broker not in view.missing_brokers:
            raise WrongArgumentError(f"there is no broker {broker}; there are {', '.join(map(str, known))}")
        stuck = next((one for one in view.partitions if one.leader < 0 and broker in one.replicas), None)
        if stuck is not None:
            raise WrongArgumentError(
                f"broker {broker} cannot be drained: {stuck.topic}-{stuck.number} has no leader to copy it from; "
                f"start a broker that has it ({shown(stuck.replicas)})"
            )
        found = drained(view.partitions, broker, known, view.racks)
        if isinstance(found, str):
            raise WrongArgumentError(f"broker {broker} cannot be drained: {found}")
        return found

    nothing = f"broker {broker} holds nothing"
    return carry_out(decide, output, target, throttle, is_dry_run=dry_run, wait=wait, nothing=nothing)

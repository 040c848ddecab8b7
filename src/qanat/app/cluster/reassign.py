"""`qanat cluster reassign`: move partitions to named brokers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.target import HERE, Target, run
from qanat.app.cluster.cluster_view import moves_of
from qanat.app.cluster.partition_moves import move, request_moves, shown
from qanat.app.cluster.reassignment_plan import wanted_moves
from qanat.app.cluster.replication_throttle import parse_rate
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.connection.cluster import Cluster

_WANTED_COLUMNS = ("topic", "partition", "to")
_MOVING_COLUMNS = ("topic", "partition", "adding", "removing")


def reassign(
    partitions: Annotated[list[str], Parameter(name="partition", negative="")] = [],  # noqa: B006 - never changed
    /,
    *,
    to: Annotated[str | None, Parameter(name="--to")] = None,
    plan: Annotated[Path | None, Parameter(name="--plan")] = None,
    cancel: Annotated[bool, Parameter(negative="")] = False,
    listing: Annotated[bool, Parameter(name="--list", negative="")] = False,
    throttle: str | None = None,
    wait: bool = True,
    output: Output = "table",
    target: Target = HERE,
) -> int:
    """Move partitions to other brokers; the first one named is the preferred leader.

    Clients are not interrupted: new replicas copy everything before old ones are removed.

        qanat cluster reassign orders:0 --to 1,2,3
        qanat cluster reassign --plan moves.json      (Kafka's reassignment JSON)
        qanat cluster reassign --list
        qanat cluster reassign orders:0 --cancel
        qanat cluster reassign --plan moves.json --throttle 50MB

    Parameters
    ----------
    partitions:
        Partitions, topic:number.
    to:
        Broker ids, separated by commas.
    plan:
        A file as kafka-reassign-partitions takes it.
    cancel:
        Cancel moves: of these partitions, of those in the plan, or of all.
    listing:
        Only list moves under way.
    throttle:
        Bytes a second at which each broker copies new replicas; lifted when all moves are done.
    wait:
        Whether to return only when all moves are done.
    output:
        `table` for people, the others for programs.
    """
    if listing:
        print_rows(run(target, _moving_rows), _MOVING_COLUMNS, output)
        return 0

    async def work(cluster: Cluster) -> list[Row]:
        if cancel:
            taken_back = wanted or dict.fromkeys(await moves_of(cluster))
            await request_moves(cluster, taken_back)
            return [_wanted_row(key, None) for key in taken_back]
        await move(cluster, wanted, limit, wait=wait)
        return [_wanted_row(key, replicas) for key, replicas in wanted.items()]

    limit = None if throttle is None else parse_rate(throttle)
    wanted = wanted_moves(partitions, to, plan, is_cancelled=cancel)
    rows = run(target, work)
    if output != "table":
        print_rows(rows, _WANTED_COLUMNS, output)
    elif not rows:
        print("nothing is being moved")
    else:
        print("moves cancelled" if cancel else "moved" if wait else "moves started")
    return 0


async def _moving_rows(cluster: Cluster) -> list[Row]:
    return [
        {"topic": topic, "partition": number, "adding": shown(adding), "removing": shown(removing)}
        for (topic, number), (adding, removing) in (await moves_of(cluster)).items()
    ]


def _wanted_row(key: tuple[str, int], replicas: Sequence[int] | None) -> Row:
    return {"topic": key[0], "partition": key[1], "to": None if replicas is None else shown(replicas)}

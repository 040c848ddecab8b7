"""Moves of partitions: planned, requested in chunks, throttled, awaited."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence

from qanat.app.client.target import Target, run
from qanat.app.cluster.cluster_view import ClusterView, moves_of, view_of
from qanat.app.cluster.reassignment_plan import Wanted
from qanat.app.cluster.replication_throttle import impose, lift, parse_rate
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.app.terminal.progress import count_progress
from qanat.cluster.spreading import Plan
from qanat.connection.cluster import Cluster
from qanat.connection.faults import check, refused
from qanat.model.errors import QanatError
from qanat.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from qanat.wire.kafka.registry import ApiKey

_COLUMNS = ("topic", "partition", "from", "to")
_AT_ONCE = 100
_LOOK_S = 0.3


def carry_out(
    decide: Callable[[ClusterView], Plan],
    output: Output,
    target: Target,
    throttle: str | None,
    *,
    is_dry_run: bool,
    wait: bool,
    nothing: str,
) -> int:
    limit = None if throttle is None else parse_rate(throttle)

    async def look(cluster: Cluster) -> tuple[Plan, list[Row]]:
        view = await view_of(cluster)
        plan = decide(view)
        now = {(one.topic, one.number): one.replicas for one in view.partitions}
        return plan, [
            {"topic": topic, "partition": number, "from": shown(now[topic, number]), "to": shown(replicas)}
            for (topic, number), replicas in plan.items()
        ]

    plan, rows = run(target, look)
    if not plan:
        if output == "table":
            print(nothing)
        else:
            print_rows([], _COLUMNS, output)
        return 0
    print_rows(rows, _COLUMNS, output)
    fewer = sum(str(row["to"]).count(",") < str(row["from"]).count(",") for row in rows)
    if fewer:
        print(f"qanat: {fewer} partitions get fewer replicas: no other broker can take them", file=sys.stderr)
    if is_dry_run:
        return 0

    run(target, lambda cluster: move(cluster, dict(plan), limit, wait=wait))
    return 0


def shown(replicas: Sequence[int]) -> str:
    return ",".join(map(str, replicas))


async def move(cluster: Cluster, wanted: Wanted, limit: int | None, *, wait: bool) -> None:
    """Request moves, throttled to a limit, and optionally wait for them."""
    if limit is not None:
        await impose(cluster, wanted, await view_of(cluster), limit)
    try:
        await request_moves(cluster, wanted)
    except QanatError:
        if limit is not None and not await moves_of(cluster):
            await lift(cluster, [topic for topic, _ in wanted])
        raise
    if wait:
        await _wait(cluster, wanted)
    if limit is not None and wait:
        await lift(cluster, [topic for topic, _ in wanted])
    elif limit is not None:
        print("qanat: the throttle stays until it is lifted: qanat cluster throttle --off", file=sys.stderr)


async def request_moves(cluster: Cluster, wanted: Wanted) -> None:
    items = list(wanted.items())
    for start in range(0, len(items), _AT_ONCE):
        topics: dict[str, ReassignableTopic] = {}
        for (topic, number), replicas in items[start : start + _AT_ONCE]:
            row = ReassignablePartition(number, None if replicas is None else list(replicas))
            topics.setdefault(topic, ReassignableTopic(topic, [])).partitions.append(row)
        request = AlterPartitionReassignmentsRequest(30_000, topics=list(topics.values()))
        answer: AlterPartitionReassignmentsResponse = await cluster.call_controller(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS, request
        )
        check("cannot reassign partitions", answer.error_code, answer.error_message)
        rows = [(one.name, partition) for one in answer.responses for partition in one.partitions]
        wrong = [one for one in rows if one[1].error_code]
        if wrong:
            topic, first = wrong[0]
            what = f"{topic}-{first.partition_index} is not moved"
            if len(wrong) > 1:
                what += f", nor {len(wrong) - 1} more"
            if taken := start + len(rows) - len(wrong):
                what += f" ({taken} of the {len(items)} named were accepted)"
            raise refused(what, first.error_code, first.error_message)


async def _wait(cluster: Cluster, wanted: Mapping[tuple[str, int], object]) -> None:
    """Return once all these moves are done."""
    with count_progress("moving", len(wanted)) as report_progress:
        while left := [key for key in await moves_of(cluster) if key in wanted]:
            report_progress(len(wanted) - len(left))
            await asyncio.sleep(_LOOK_S)

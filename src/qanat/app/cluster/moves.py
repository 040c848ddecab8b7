"""`qanat cluster reassign`, `drain`, `rebalance` and `elect`: replicas and leaders elsewhere, while all is in use."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qanat.app.cluster.losses import COLUMNS as LOSSES
from qanat.app.cluster.losses import losses_of
from qanat.app.cluster.move_plan import Wanted, parse_partition, wanted_moves
from qanat.app.cluster.throttling import impose, lift, parse_rate
from qanat.app.cluster.view import ClusterView, moves_of, view_of
from qanat.app.session import HERE, UNDECIDED, Consent, Target, WrongArgumentError, run
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.app.terminal.progress import told_count
from qanat.cluster.spreading import Plan, drained, evened
from qanat.connection.cluster import Cluster
from qanat.connection.faults import check, refused
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from qanat.wire.kafka.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from qanat.wire.kafka.registry import ApiKey

_COLUMNS = ("topic", "partition", "from", "to")
_WANTED_COLUMNS = ("topic", "partition", "to")
_MOVING_COLUMNS = ("topic", "partition", "adding", "removing")
_ELECTED_COLUMNS = ("topic", "partition", "outcome")
_AT_ONCE = 100
_LOOK_S = 0.3
_PREFERRED, _UNCLEAN = 0, 1
_ELECTED = (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)


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

    Nothing is interrupted: the new replicas copy everything first, then the old ones go.

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
        Take moves under way back: of these partitions, or those of the plan, or all.
    listing:
        Only show what is being moved.
    throttle:
        Bytes a second at which new replicas copy, of each broker; lifted when everything is moved.
    wait:
        Whether to return only when everything is where it should be.
    output:
        `table` for people, the others for programs.
    """
    if listing:
        print_rows(run(target, _moving_rows), _MOVING_COLUMNS, output)
        return 0

    async def work(cluster: Cluster) -> list[Row]:
        if cancel:
            taken_back = wanted or dict.fromkeys(await moves_of(cluster))
            await _ask(cluster, taken_back)
            return [_wanted_row(key, None) for key in taken_back]
        await _move(cluster, wanted, limit, wait=wait)
        return [_wanted_row(key, replicas) for key, replicas in wanted.items()]

    limit = None if throttle is None else parse_rate(throttle)
    wanted = wanted_moves(partitions, to, plan, is_cancelled=cancel)
    rows = run(target, work)
    if output != "table":
        print_rows(rows, _WANTED_COLUMNS, output)
    elif not rows:
        print("nothing is being moved")
    else:
        print("the moves were taken back" if cancel else "moved" if wait else "begun")
    return 0


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
    """Move everything away from a broker, so that it can be taken out of the cluster.

    Where no other broker can take a replica, the partition does with one fewer, which is told. One that has died for
    good can be drained as well: the others have what it had.

        qanat cluster drain 2 --dry-run
        qanat cluster drain 2

    Parameters
    ----------
    broker:
        Its id.
    dry_run:
        Only say what would be moved.
    throttle:
        Bytes a second at which new replicas copy, of each broker, such as 50MB; lifted when everything is moved.
    wait:
        Whether to return only when everything has been moved.
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
                f"broker {broker} cannot be drained: nobody leads {stuck.topic}-{stuck.number}, so nobody can copy it; "
                f"start a broker that has it ({_shown(stuck.replicas)})"
            )
        found = drained(view.partitions, broker, known, view.racks)
        if isinstance(found, str):
            raise WrongArgumentError(f"broker {broker} cannot be drained: {found}")
        return found

    nothing = f"broker {broker} holds nothing"
    return _carry_out(decide, output, target, throttle, is_tried=dry_run, wait=wait, nothing=nothing)


def rebalance(
    *,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    throttle: str | None = None,
    wait: bool = True,
    output: Output = "table",
    target: Target = HERE,
) -> int:
    """Spread partitions and their leaders evenly over all brokers, moving as few as will do.

        qanat cluster rebalance --dry-run
        qanat cluster rebalance

    Parameters
    ----------
    dry_run:
        Only say what would be moved.
    throttle:
        Bytes a second at which new replicas copy, of each broker, such as 50MB; lifted when everything is moved.
    wait:
        Whether to return only when everything has been moved.
    output:
        `table` for people, the others for programs.
    """

    def decide(view: ClusterView) -> Plan:
        return evened(view.partitions, [one.node_id for one in view.brokers], view.racks)

    return _carry_out(
        decide, output, target, throttle, is_tried=dry_run, wait=wait, nothing="everything is spread evenly already"
    )


def elect(
    partitions: Annotated[list[str], Parameter(name="partition", negative="")] = [],  # noqa: B006 - never changed
    /,
    *,
    unclean: Annotated[bool, Parameter(negative="")] = False,
    output: Output = "table",
    consent: Consent = UNDECIDED,
    target: Target = HERE,
) -> int:
    """Let the preferred replicas lead; or, `--unclean`, any replica of a partition that nobody can lead.

    An unclean election loses what only the missing replicas have, and what the best copy that is there cannot read.
    It shows the copies and what would be lost, and asks for --yes.

        qanat cluster elect
        qanat cluster elect orders:0 --unclean
        qanat cluster elect orders:0 --unclean --yes

    Exit codes: 0 all of them are led as asked, 1 some could not be.

    Parameters
    ----------
    partitions:
        Partitions, topic:number; all without any.
    unclean:
        Elect although records will be lost.
    output:
        `table` for people, the others for programs.
    """
    named = [parse_partition(text) for text in partitions]
    if unclean:
        losses = run(target, lambda cluster: losses_of(cluster, named))
        if losses:
            with contextlib.redirect_stdout(sys.stderr if consent.is_given else sys.stdout):
                print_rows(losses, LOSSES, "table" if consent.is_given else output)
        if not consent.is_given:
            return consent.withheld("elected")
    asked: dict[str, list[int]] = {}
    for topic, number in named:
        asked.setdefault(topic, []).append(number)
    request = ElectLeadersRequest(
        _UNCLEAN if unclean else _PREFERRED,
        [TopicPartitions(topic, numbers) for topic, numbers in asked.items()] if asked else None,
        30_000,
    )

    async def work(cluster: Cluster) -> list[Row]:
        answer: ElectLeadersResponse = await cluster.call_controller(ApiKey.ELECT_LEADERS, request)
        check("leaders were not elected", answer.error_code)
        found = [(topic.topic, one) for topic in answer.replica_election_results for one in topic.partition_result]
        failed.extend(one.error_code for _, one in found if one.error_code not in _ELECTED)
        return [
            {
                "topic": topic,
                "partition": one.partition_id,
                "outcome": "elected" if not one.error_code else one.error_message,
            }
            for topic, one in found
        ]

    failed: list[int] = []
    rows = run(target, work)
    if not rows and output == "table":
        print("every partition has a leader" if unclean else "every partition is led by its preferred replica")
        return 0
    print_rows(rows, _ELECTED_COLUMNS, output)
    return 1 if failed else 0


# What they have in common


def _carry_out(
    decide: Callable[[ClusterView], Plan],
    output: Output,
    target: Target,
    throttle: str | None,
    *,
    is_tried: bool,
    wait: bool,
    nothing: str,
) -> int:
    limit = None if throttle is None else parse_rate(throttle)

    async def look(cluster: Cluster) -> tuple[Plan, list[Row]]:
        view = await view_of(cluster)
        plan = decide(view)
        now = {(one.topic, one.number): one.replicas for one in view.partitions}
        return plan, [
            {"topic": topic, "partition": number, "from": _shown(now[topic, number]), "to": _shown(replicas)}
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
    if is_tried:
        return 0

    run(target, lambda cluster: _move(cluster, dict(plan), limit, wait=wait))
    return 0


def _shown(replicas: Sequence[int]) -> str:
    return ",".join(map(str, replicas))


async def _move(cluster: Cluster, wanted: Wanted, limit: int | None, *, wait: bool) -> None:
    """Begin moves, no faster than that, and wait for them if asked to."""
    if limit is not None:
        await impose(cluster, wanted, await view_of(cluster), limit)
    try:
        await _ask(cluster, wanted)
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


async def _ask(cluster: Cluster, wanted: Wanted) -> None:
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
        check("nothing is moved", answer.error_code, answer.error_message)
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
    """Return once none of these is being moved any more."""
    with told_count("moving", len(wanted)) as tell:
        while left := [key for key in await moves_of(cluster) if key in wanted]:
            tell(len(wanted) - len(left))
            await asyncio.sleep(_LOOK_S)


async def _moving_rows(cluster: Cluster) -> list[Row]:
    return [
        {"topic": topic, "partition": number, "adding": _shown(adding), "removing": _shown(removing)}
        for (topic, number), (adding, removing) in (await moves_of(cluster)).items()
    ]


def _wanted_row(key: tuple[str, int], replicas: Sequence[int] | None) -> Row:
    return {"topic": key[0], "partition": key[1], "to": None if replicas is None else _shown(replicas)}

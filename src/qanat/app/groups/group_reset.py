"""`qanat group reset`: let a group read again, or skip; in Kafka's spellings, and as `seek --to` in rpk's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from cyclopts import Parameter

from qanat.app.groups.group_view import SHARE, GroupView, describe_group
from qanat.app.records.positions import Position, offsets_at, parse_moment, parse_position
from qanat.app.session import HERE, UNDECIDED, Consent, Target, WrongArgumentError, run
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.app.terminal.progress import told_status
from qanat.connection.cluster import Cluster
from qanat.connection.committed import commit_offsets, committed_offsets
from qanat.connection.deadline import Deadline
from qanat.connection.offsets import list_bounds
from qanat.connection.share_offsets import move_share_group, share_standings
from qanat.model.ids import TopicPartition

_ISO_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
_COLUMNS = ("group", "topic", "partition", "committed", "new", "end", "lag")

Flag = Annotated[bool, Parameter(negative="")]


def reset(
    group: str,
    /,
    *,
    topic: Annotated[list[str] | None, Parameter(name=["--topic", "-t", "--topics"], negative="")] = None,
    all_topics: Flag = False,
    to: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    to_earliest: Flag = False,
    to_latest: Flag = False,
    to_offset: int | None = None,
    to_datetime: str | None = None,
    by_duration: str | None = None,
    to_current: Flag = False,
    shift_by: Annotated[int | None, Parameter(allow_leading_hyphen=True)] = None,
    consent: Consent = UNDECIDED,
    output: Output = "table",
    target: Target = HERE,
) -> int:
    """Commit other offsets for a group that has no members. Without --yes, only show them.

        qanat group reset billing --topic orders --to-datetime 2026-01-01T00:00 --yes
        qanat group seek billing --all-topics --to @2h --dry-run

    A share group begins anew there: locks and counts of deliveries are forgotten.

    Parameters
    ----------
    group:
        Its name.
    topic:
        A topic, or some of its partitions: orders:0,2.
    all_topics:
        Every topic that the group has committed.
    to:
        A place: start, end, an offset, +N, -N, @2h or @2026-01-01T00:00.
    to_earliest:
        The first record that is there.
    to_latest:
        Behind the last record.
    to_offset:
        This offset, or the nearest that is there.
    to_datetime:
        The first record from then on: 2026-01-01T00:00 (UTC), or 2h ago.
    by_duration:
        The first record that is not older: PT2H30M, or 2h.
    to_current:
        What is committed; the first record where nothing is.
    shift_by:
        So many records on from what is committed; negative goes back.
    output:
        `table` for people, the others for programs.
    """
    given = [parse_position(to)] if to is not None else []
    given += [parse_position("@" + ago(by_duration))] if by_duration is not None else []
    given += [Position("shift", 0)] if to_current else []
    place = _place(given, to_earliest, to_latest, to_offset, to_datetime, shift_by)
    if bool(topic) == all_topics:
        raise WrongArgumentError("say which topics: --topic orders, or --all-topics")
    is_meant = consent.is_given

    async def work(cluster: Cluster) -> list[Row]:
        deadline = cluster.deadline()
        view = await describe_group(cluster, group, deadline)
        committed = await _present(cluster, view, deadline)
        wanted = _wanted(topic or [], committed)
        rows = await _plan(cluster, group, wanted, committed, place, deadline)
        if is_meant:
            if view.members:
                raise WrongArgumentError(f"group {group} has members ({len(view.members)}): stop its consumers first")
            new = {TopicPartition(str(row["topic"]), int(str(row["partition"]))): int(str(row["new"])) for row in rows}
            move = move_share_group if view.type == SHARE else commit_offsets
            await move(cluster, group, new, deadline)
        return rows

    with told_status(f"resetting {group}") as tell:
        tell("")
        rows = run(target, work)
    print_rows(rows, _COLUMNS, output, spare=("group",))
    return 0 if is_meant else consent.withheld("reset")


async def _present(cluster: Cluster, group: GroupView, deadline: Deadline) -> dict[TopicPartition, int]:
    """What a group has committed; of a share group, where it begins."""
    if group.type != SHARE:
        return await committed_offsets(cluster, group.group_id, deadline)
    found = await share_standings(cluster, group.group_id, deadline)
    return {at: one.start_offset for at, one in found.items() if one.start_offset is not None}


def ago(duration: str) -> str:
    """A duration in ISO 8601's form, as Kafka's tool takes it, in ours.

    >>> ago("PT2H30M"), ago("P1D"), ago("2h")
    ('9000s', '86400s', '2h')
    """
    iso = _ISO_DURATION.fullmatch(duration)
    if iso is None or not any(iso.groups()):
        return duration
    days, hours, minutes, seconds = (int(part or 0) for part in iso.groups())
    return f"{((days * 24 + hours) * 60 + minutes) * 60 + seconds}s"


def _place(
    given: list[Position],
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: str | None,
    shift_by: int | None,
) -> Position:
    """The one place that was asked for; a shift is a position of its own kind."""
    if to_earliest:
        given.append(Position("start"))
    if to_latest:
        given.append(Position("end"))
    if to_offset is not None:
        if to_offset < 0:
            raise WrongArgumentError(f"--to-offset {to_offset}: offsets begin with 0; --shift-by goes back from here")
        given.append(Position("offset", to_offset))
    if to_datetime is not None:
        given.append(Position("moment", parse_moment(to_datetime.removeprefix("@"))))
    if shift_by is not None:
        given.append(Position("shift", shift_by))
    if len(given) != 1:
        raise WrongArgumentError(
            "say where to, once: --to, --to-earliest, --to-latest, --to-offset, --to-datetime, --by-duration, "
            "--to-current or --shift-by"
        )
    return given[0]


def _wanted(topics: list[str], committed: Mapping[TopicPartition, int]) -> dict[str, list[int] | None]:
    """Topics, with the partitions of each; None for all."""
    if not topics:
        found: dict[str, list[int] | None] = {at.topic: None for at in committed}
        if not found:
            raise WrongArgumentError("the group has committed nothing: name a topic with --topic")
        return found
    wanted: dict[str, list[int] | None] = {}
    for item in topics:
        name, separator, numbers = item.partition(":")
        if separator and not all(number.isdigit() for number in numbers.split(",")):
            raise WrongArgumentError(f"--topic {item}: partitions are numbers, orders:0,2")
        wanted[name] = [int(number) for number in numbers.split(",")] if separator else None
    return wanted


async def _plan(
    cluster: Cluster,
    group: str,
    wanted: Mapping[str, list[int] | None],
    committed: Mapping[TopicPartition, int],
    place: Position,
    deadline: Deadline,
) -> list[Row]:
    """A row per partition: what is committed, and what would be."""
    rows: list[Row] = []
    for topic, partitions in wanted.items():
        view = await cluster.topic(topic, deadline)
        bounds = await list_bounds(cluster, view, deadline)
        missing = [partition for partition in partitions or () if partition not in bounds]
        if missing:
            raise WrongArgumentError(f"topic {topic} has no partition {missing[0]}")
        bounds = {partition: bounds[partition] for partition in partitions or bounds}
        old = {partition: committed.get(TopicPartition(topic, partition)) for partition in bounds}
        if place.kind == "shift":
            new = {partition: _shifted(old[partition], place.number, *bounds[partition]) for partition in bounds}
        else:
            new = await offsets_at(cluster, view, place, bounds, deadline)
        rows += [
            _row(group, topic, partition, old[partition], new[partition], bounds[partition][1]) for partition in bounds
        ]
    return rows


def _shifted(committed: int | None, by: int, first: int, end: int) -> int:
    """Counted from the first record where nothing is committed."""
    return max(first, min(end, (first if committed is None else committed) + by))


def _row(group: str, topic: str, partition: int, old: int | None, new: int, end: int) -> Row:
    return {
        "group": group,
        "topic": topic,
        "partition": partition,
        "committed": old,
        "new": new,
        "end": end,
        "lag": end - new,
    }

"""`qanat group reset`: commit other offsets for a group, in Kafka's spellings, and in rpk's as `seek --to`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.consent import UNDECIDED, Consent
from qanat.app.client.target import HERE, Target, run
from qanat.app.groups.group_view import SHARE, GroupView, describe_group
from qanat.app.records.topic_positions import Position, offsets_at, parse_position, parse_timestamp
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.app.terminal.progress import status_line
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

    A share group starts again there: it loses locks and delivery counts.

    Parameters
    ----------
    group:
        Its name.
    topic:
        A topic, or some of its partitions: orders:0,2.
    all_topics:
        Every topic with committed offsets of the group.
    to:
        A place: start, end, an offset, +N, -N, @2h or @2026-01-01T00:00.
    to_earliest:
        The first record.
    to_latest:
        After the last record.
    to_offset:
        This offset, or the nearest existing one.
    to_datetime:
        The first record from then on: 2026-01-01T00:00 (UTC), or 2h ago.
    by_duration:
        The first record that is not older: PT2H30M, or 2h.
    to_current:
        The committed offset; the first record where there is none.
    shift_by:
        So many records forward from the committed offset; a negative number goes back.
    output:
        `table` for people, the others for programs.
    """
    positions = [parse_position(to)] if to is not None else []
    positions += [parse_position("@" + ago(by_duration))] if by_duration is not None else []
    positions += [Position("shift", 0)] if to_current else []
    place = _place(positions, to_earliest, to_latest, to_offset, to_datetime, shift_by)
    if bool(topic) == all_topics:
        raise WrongArgumentError("say which topics: --topic orders, or --all-topics")
    is_confirmed = consent.is_confirmed

    async def work(cluster: Cluster) -> list[Row]:
        deadline = cluster.deadline()
        view = await describe_group(cluster, group, deadline)
        committed = await _present(cluster, view, deadline)
        wanted = _wanted(topic or [], committed)
        rows = await _plan(cluster, group, wanted, committed, place, deadline)
        if is_confirmed:
            if view.members:
                raise WrongArgumentError(f"group {group} has members ({len(view.members)}): stop its consumers first")
            new = {TopicPartition(str(row["topic"]), int(str(row["partition"]))): int(str(row["new"])) for row in rows}
            move = move_share_group if view.type == SHARE else commit_offsets
            await move(cluster, group, new, deadline)
        return rows

    with status_line(f"resetting {group}") as report_progress:
        report_progress("")
        rows = run(target, work)
    print_rows(rows, _COLUMNS, output, spare=("group",))
    return 0 if is_confirmed else consent.report_withheld("reset")


async def _present(cluster: Cluster, group: GroupView, deadline: Deadline) -> dict[TopicPartition, int]:
    """The committed offsets of a group, or the start offsets of a share group."""
    if group.type != SHARE:
        return await committed_offsets(cluster, group.group_id, deadline)
    found = await share_standings(cluster, group.group_id, deadline)
    return {at: one.start_offset for at, one in found.items() if one.start_offset is not None}


def ago(duration: str) -> str:
    """An ISO 8601 duration, as Kafka's tool takes it, in our form.

    >>> ago("PT2H30M"), ago("P1D"), ago("2h")
    ('9000s', '86400s', '2h')
    """
    iso = _ISO_DURATION.fullmatch(duration)
    if iso is None or not any(iso.groups()):
        return duration
    days, hours, minutes, seconds = (int(part or 0) for part in iso.groups())
    return f"{((days * 24 + hours) * 60 + minutes) * 60 + seconds}s"


def _place(
    positions: list[Position],
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: str | None,
    shift_by: int | None,
) -> Position:
    """The one place that the flags name; a shift is a position of its own kind."""
    if to_earliest:
        positions.append(Position("start"))
    if to_latest:
        positions.append(Position("end"))
    if to_offset is not None:
        if to_offset < 0:
            raise WrongArgumentError(f"--to-offset {to_offset}: offsets begin with 0; --shift-by goes back from here")
        positions.append(Position("offset", to_offset))
    if to_datetime is not None:
        positions.append(Position("timestamp", parse_timestamp(to_datetime.removeprefix("@"))))
    if shift_by is not None:
        positions.append(Position("shift", shift_by))
    if len(positions) != 1:
        raise WrongArgumentError(
            "say where to, once: --to, --to-earliest, --to-latest, --to-offset, --to-datetime, --by-duration, "
            "--to-current or --shift-by"
        )
    return positions[0]


def _wanted(topics: list[str], committed: Mapping[TopicPartition, int]) -> dict[str, list[int] | None]:
    """Topics, with the partitions of each; None for all."""
    if not topics:
        found: dict[str, list[int] | None] = {at.topic: None for at in committed}
        if not found:
            raise WrongArgumentError("the group has no committed offsets: name a topic with --topic")
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
    """A row per partition: the committed offset and the new one."""
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
    """The offset shifted from the committed one, or from the first record where there is none."""
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

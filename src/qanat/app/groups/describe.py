"""`qanat group describe`: committed offsets, lag and members of groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.target import HERE, Target
from qanat.app.groups.group_lag import Lag, lags
from qanat.app.groups.group_view import DEAD, SHARE, GroupView, MemberView, describe_group
from qanat.app.groups.list import listed
from qanat.app.terminal.listing import Output, Row, counted, print_rows
from qanat.app.terminal.printable import printable
from qanat.app.terminal.watch import ONCE, Watch, show
from qanat.connection.cluster import Cluster
from qanat.connection.committed import committed_offsets
from qanat.connection.deadline import Deadline
from qanat.connection.faults import RefusedError
from qanat.connection.share_offsets import share_standings
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.model.spelling import did_you_mean

_LAG_COLUMNS = (
    *("group", "scope", "topic", "partition", "committed", "end", "lag", "time_lag_ms"),
    *("member", "client", "host", "member_epoch", "member_state", "type", "epoch", "assignor"),
)
_TABLE_COLUMNS = ("topic", "partition", "committed", "end", "lag", "time_lag_ms", "member", "host")
_ID_SHOWN = 7
"""How many characters of a member's id, behind its client's name, distinguish it from other members."""
Groups = Annotated[list[str], Parameter(name="group", negative="")]


def describe(groups: Groups, /, *, output: Output = "table", watch: Watch = ONCE, target: Target = HERE) -> None:
    """Show committed offsets and lag of groups: by partition, by topic, and in total.

        qanat group describe billing
        qanat group describe billing --watch --every 5

    The time lag is the age of the first record that the group has not read. A partition without a committed offset
    has no lag. A share group's start offset is shown as the committed one, and its lag counts undelivered records.
    For programs, rows have a scope: `partition`, `topic` or `total`.

    Parameters
    ----------
    groups:
        Names.
    output:
        `table` for people, the others for programs.
    """

    async def work(cluster: Cluster) -> list[tuple[GroupView, list[Row]]]:
        return [await described(cluster, group) for group in groups]

    show(target, watch, work, lambda described: _print_groups(described, output))


def _print_groups(described: list[tuple[GroupView, list[Row]]], output: str) -> None:
    """A table per group; a member is shown by its client and the beginning of its id."""
    if output != "table":
        print_rows([row for _, rows in described for row in rows], _LAG_COLUMNS, output)
        return
    for index, (group, rows) in enumerate(described):
        print(f"{chr(10) if index else ''}{printable(group.group_id)}: {_summary(group)}")
        shown = [row | {"member": _short_member(row), "topic": _shown_topic(row)} for row in rows]
        print_rows(shown, _TABLE_COLUMNS, output, spare=("host", "member"))


def _summary(group: GroupView) -> str:
    """One line: state and size; in the new protocol also epochs, and members that have not caught up."""
    parts = [group.state, counted(len(group.members), "member")]
    if group.assignor:
        parts.append(f"assignor {group.assignor}")
    if group.epoch is not None:
        parts.append(f"type {group.type}, epoch {group.epoch}, assignment of epoch {group.target_epoch}")
        classic = sum(member.protocol == "classic" for member in group.members)
        parts += [f"{classic} of them classic"] if classic else []
        for state in ("behind", "waiting", "away"):
            ids = [printable(one.member_id) for one in group.members if one.state == state]
            parts += [f"{state}: {' '.join(ids)}"] if ids else []
    return ", ".join(parts)


def _short_member(row: Row) -> str | None:
    if row["member"] is None:
        return None
    return str(row["member"])[: len(str(row["client"] or "")) + _ID_SHOWN]


def _shown_topic(row: Row) -> str:
    match row["scope"]:
        case "total":
            return "total"
        case "topic":
            return f"{row['topic']}, all"
        case _:
            return str(row["topic"])


async def _suggestion(cluster: Cluster, group: str) -> str:
    names = [str(row["group"]) for row in await listed(cluster, [], [])]
    return did_you_mean(group, names, "qanat group list shows those that exist")


async def described(cluster: Cluster, group: str) -> tuple[GroupView, list[Row]]:
    deadline = cluster.deadline()
    found = await describe_group(cluster, group, deadline)
    if found.type == SHARE:
        return await _described_shares(cluster, found, deadline)
    offsets = await committed_offsets(cluster, group, deadline)
    if found.state == DEAD and not offsets:
        raise RefusedError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group}{await _suggestion(cluster, group)}"
        )
    owners = {at: member for member in found.members for at in member.assigned}
    rows = _rows(group, await lags(cluster, offsets, set(owners), deadline), owners)
    about: Row = {"type": found.type, "epoch": found.epoch, "assignor": found.assignor or None}
    return found, [row | about for row in rows]


async def _described_shares(cluster: Cluster, group: GroupView, deadline: Deadline) -> tuple[GroupView, list[Row]]:
    """A share group shows its start offset as `committed`: everything before it is done."""
    standings = await share_standings(cluster, group.group_id, deadline)
    offsets = {at: one.start_offset for at, one in standings.items() if one.start_offset is not None}
    found = await lags(cluster, offsets, set(standings), deadline)
    found = [replace(lag, left=standings[lag.at].lag) if lag.at in standings else lag for lag in found]
    about: Row = {"type": group.type, "epoch": group.epoch, "assignor": group.assignor or None}
    rows = [row | about for row in _rows(group.group_id, found, {})]
    for row in rows:
        at = TopicPartition(str(row["topic"]), int(str(row["partition"] or 0)))
        members = [one for one in group.members if at in one.assigned]
        if row["scope"] == "partition" and members:
            # Several members may share one partition.
            row |= {"member": " ".join(one.member_id for one in members)}
            row |= {"client": " ".join(dict.fromkeys(one.client_id for one in members))}
            row |= {"host": " ".join(dict.fromkeys(one.client_host for one in members))}
    return group, rows


def _rows(group: str, found: list[Lag], owners: dict[TopicPartition, MemberView]) -> list[Row]:
    rows: list[Row] = []
    for lag in found:
        owner = owners.get(lag.at)
        row = _row(group, "partition", lag.at.topic, [lag])
        row |= {"partition": lag.at.partition, "committed": lag.committed, "end": lag.end, "lag": lag.records}
        if owner is not None:
            row |= {"member": owner.member_id, "client": owner.client_id, "host": owner.client_host}
            row |= {"member_epoch": owner.epoch, "member_state": owner.state or None}
        rows.append(row)
    topics = dict.fromkeys(lag.at.topic for lag in found)
    rows += [_row(group, "topic", topic, [lag for lag in found if lag.at.topic == topic]) for topic in topics]
    return [*rows, _row(group, "total", None, found)]


def _row(group: str, scope: str, topic: str | None, found: list[Lag]) -> Row:
    """A row for several partitions; columns of a single partition are empty."""
    return {
        "group": group,
        "scope": scope,
        "topic": topic,
        "partition": None,
        "committed": None,
        "end": None,
        "lag": sum(lag.records or 0 for lag in found),
        "time_lag_ms": max((lag.age_ms for lag in found if lag.age_ms is not None), default=None),
        "member": None,
        "client": None,
        "host": None,
        "member_epoch": None,
        "member_state": None,
    }

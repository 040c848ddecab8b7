"""`qanat group list|describe|delete`: who reads what, and how far behind; `reset` is in `group_reset`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

from qanat.app.groups.group_lag import Lag, lags
from qanat.app.groups.group_view import DEAD, SHARE, GroupView, MemberView, describe_group
from qanat.app.session import HERE, UNDECIDED, Consent, Target, run
from qanat.app.terminal.listing import Output, Row, counted, print_done, print_rows
from qanat.app.terminal.printable import printable
from qanat.app.terminal.watch import ONCE, Watch, show
from qanat.connection.cluster import Cluster
from qanat.connection.committed import committed_offsets
from qanat.connection.deadline import Deadline
from qanat.connection.faults import RefusedError, check
from qanat.connection.share_offsets import share_standings
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.model.spelling import did_you_mean
from qanat.wire.kafka.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from qanat.wire.kafka.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from qanat.wire.kafka.registry import ApiKey

_LIST_COLUMNS = ("group", "state", "protocol", "type", "coordinator")
_LAG_COLUMNS = (
    *("group", "scope", "topic", "partition", "committed", "end", "lag", "time_lag_ms"),
    *("member", "client", "host", "member_epoch", "member_state", "type", "epoch", "assignor"),
)
_TABLE_COLUMNS = ("topic", "partition", "committed", "end", "lag", "time_lag_ms", "member", "host")
_DONE_COLUMNS = ("group", "state", "done")
_ID_SHOWN = 7
"""So many letters of a member's id behind its client's name tell it from its neighbours."""

Groups = Annotated[list[str], Parameter(name="group", negative="")]


def list_groups(
    *,
    state: Annotated[list[str] | None, Parameter(name=["--state", "-s"], negative="")] = None,
    type_: Annotated[list[str] | None, Parameter(name="--type", negative="")] = None,
    output: Output = "table",
    watch: Watch = ONCE,
    target: Target = HERE,
) -> None:
    """List groups: of consumers, and share groups.

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
        lambda cluster: _listed(cluster, state or [], type_ or []),
        lambda rows: print_rows(rows, _LIST_COLUMNS, output, spare=("type", "coordinator")),
    )


async def _listed(cluster: Cluster, states: list[str], types: list[str]) -> list[Row]:
    """The groups of every broker, by name."""
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


def describe(groups: Groups, /, *, output: Output = "table", watch: Watch = ONCE, target: Target = HERE) -> None:
    """Show what groups have read and how far behind they are: by partition, by topic, and in all.

        qanat group describe billing
        qanat group describe billing --watch --every 5

    The time lag is the age of the first record that the group has not read. A partition without a committed offset
    has no lag. Of a share group, the start offset stands for the committed one, and the lag is what is still to do.
    For programs, rows have a scope: `partition`, `topic` or `total`.

    Parameters
    ----------
    groups:
        Names.
    output:
        `table` for people, the others for programs.
    """

    async def work(cluster: Cluster) -> list[tuple[GroupView, list[Row]]]:
        return [await _described(cluster, group) for group in groups]

    show(target, watch, work, lambda described: _print_groups(described, output))


def _print_groups(described: list[tuple[GroupView, list[Row]]], output: str) -> None:
    """A table per group; the member of a row goes by its client and the beginning of its id."""
    if output != "table":
        print_rows([row for _, rows in described for row in rows], _LAG_COLUMNS, output)
        return
    for index, (group, rows) in enumerate(described):
        print(f"{chr(10) if index else ''}{printable(group.group_id)}: {_summary(group)}")
        shown = [row | {"member": _short_member(row), "topic": _shown_topic(row)} for row in rows]
        print_rows(shown, _TABLE_COLUMNS, output, spare=("host", "member"))


def _summary(group: GroupView) -> str:
    """One line: state and size, and of a group of the new protocol its epochs, and who is not where it should be."""
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


def delete(groups: Groups, /, *, consent: Consent = UNDECIDED, output: Output = "table", target: Target = HERE) -> int:
    """Delete groups with their committed offsets; a group that has members is refused. Without --yes, only say which.

        qanat group delete billing-test --yes

    Parameters
    ----------
    groups:
        Names.
    output:
        A sentence each for people, the others for programs.
    """
    rows: list[Row] = []

    async def work(cluster: Cluster) -> None:
        deadline = cluster.deadline()
        states = {group: (await _described(cluster, group))[0].state for group in groups}
        if not consent.is_given:
            rows.extend({"group": group, "state": state, "done": "would delete"} for group, state in states.items())
            return
        for group in groups:
            link = await cluster.coordinator_link(group, deadline)
            response: DeleteGroupsResponse = await link.call(
                ApiKey.DELETE_GROUPS, DeleteGroupsRequest([group]), deadline
            )
            code = response.results[0].error_code
            hint = "it has members; stop its consumers first" if code == ErrorCode.NON_EMPTY_GROUP else None
            check(f"cannot delete group {group}", code, hint)
            rows.append({"group": group, "state": None, "done": "deleted"})

    try:
        run(target, work)
    finally:
        if rows:
            print_done(rows, _DONE_COLUMNS, output, _done_sentence)
    return 0 if consent.is_given else consent.withheld("deleted")


def _done_sentence(row: Row) -> str:
    return f"{row['done']} {row['group']}" + (f" ({row['state']})" if row["state"] is not None else "")


async def _near(cluster: Cluster, group: str) -> str:
    names = [str(row["group"]) for row in await _listed(cluster, [], [])]
    return did_you_mean(group, names, "qanat group list shows those that are there")


async def _described(cluster: Cluster, group: str) -> tuple[GroupView, list[Row]]:
    deadline = cluster.deadline()
    found = await describe_group(cluster, group, deadline)
    if found.type == SHARE:
        return await _described_shares(cluster, found, deadline)
    offsets = await committed_offsets(cluster, group, deadline)
    if found.state == DEAD and not offsets:
        raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group}{await _near(cluster, group)}")
    owners = {at: member for member in found.members for at in member.assigned}
    rows = _rows(group, await lags(cluster, offsets, set(owners), deadline), owners)
    about: Row = {"type": found.type, "epoch": found.epoch, "assignor": found.assignor or None}
    return found, [row | about for row in rows]


async def _described_shares(cluster: Cluster, group: GroupView, deadline: Deadline) -> tuple[GroupView, list[Row]]:
    """What is `committed` of a share group is its start offset: everything before it is done."""
    standings = await share_standings(cluster, group.group_id, deadline)
    offsets = {at: one.start_offset for at, one in standings.items() if one.start_offset is not None}
    found = await lags(cluster, offsets, set(standings), deadline)
    found = [replace(lag, left=standings[lag.at].lag) if lag.at in standings else lag for lag in found]
    about: Row = {"type": group.type, "epoch": group.epoch, "assignor": group.assignor or None}
    rows = [row | about for row in _rows(group.group_id, found, {})]
    for row in rows:
        at = TopicPartition(str(row["topic"]), int(str(row["partition"] or 0)))
        crew = [one for one in group.members if at in one.assigned]
        if row["scope"] == "partition" and crew:
            # Several may work on one partition.
            row |= {"member": " ".join(one.member_id for one in crew)}
            row |= {"client": " ".join(dict.fromkeys(one.client_id for one in crew))}
            row |= {"host": " ".join(dict.fromkeys(one.client_host for one in crew))}
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
    """A row for some partitions together; what belongs to one alone is empty."""
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

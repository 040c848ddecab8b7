"""Administration of consumer groups: list, describe with lag, offsets, reset, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from qanat.servers.http.exchange import Exchange
from qanat.servers.http.groups.committed_offsets import Committed, commit, fetch_committed
from qanat.servers.http.groups.group_description import MemberView, members_of
from qanat.servers.http.inputs import RequestBody
from qanat.servers.http.operations import Operation
from qanat.servers.http.paging import WindowQuery, in_order, window_in, window_of
from qanat.servers.http.problems import Problem, check
from qanat.servers.http.records.consume import time_of
from qanat.servers.http.records.partition_reads import LATEST
from qanat.servers.http.records.record_parsing import TopicName
from qanat.wire.kafka.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from qanat.wire.kafka.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from qanat.wire.kafka.registry import ApiKey

PartitionNumber = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Offset = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class GroupView(msgspec.Struct):
    """A group."""

    group: str
    state: str
    type: str
    protocol_type: str
    lag: int | None = None
    """Records not read yet; with `lag=true`, or sorted by it. None where the group has committed nothing."""
    time_lag_s: float | None = None
    """How long the first of them has waited."""
    lag_state: str | None = None
    """`ok`, `warn`, `rewound`, `stalled` or `stopped`."""


class GroupPage(msgspec.Struct):
    """Some groups."""

    groups: list[GroupView]
    next_page_token: str | None
    total: int
    """How many groups the whole listing has."""


class PartitionLag(msgspec.Struct):
    """A group's offset and lag in a partition."""

    topic: str
    partition: int
    committed_offset: int | None
    latest_offset: int | None
    lag: int | None
    """Records not read yet; None where nothing is committed or the topic is deleted."""
    member_id: str | None


class GroupDescription(msgspec.Struct):
    """A group with its members and its lag."""

    group: str
    state: str
    type: str
    members: list[MemberView]
    partitions: list[PartitionLag]
    total_lag: int


class CommittedOffset(msgspec.Struct):
    """A committed offset of a group."""

    topic: str
    partition: int
    offset: int
    metadata: str


class GroupOffsets(msgspec.Struct):
    """The committed offsets of a group."""

    group: str
    offsets: list[CommittedOffset]


class OffsetToCommit(RequestBody, frozen=True):
    """An offset: the next record to read."""

    topic: TopicName
    partition: PartitionNumber
    offset: Offset


class OffsetsToCommit(RequestBody, frozen=True):
    """Offsets to commit."""

    offsets: list[OffsetToCommit]
    member_id: str | None = None
    """The member that commits; without it the group must have no members."""
    member_epoch: int | None = None
    """The member's epoch, from subscribe or heartbeat; looked up where it is left out."""
    metadata: str = ""
    """Metadata of the offsets."""


class OffsetsToReset(RequestBody, frozen=True):
    """New offsets of a group, which must have no members."""

    to: str = "earliest"
    """`earliest`, `latest`, or a time in ISO 8601 or milliseconds."""
    offset: Offset | None = None
    """Instead of `to`: this offset, or the nearest that exists."""
    shift_by: int | None = None
    """Instead of `to`: so many records after the committed offset; negative goes back."""
    topic: TopicName | None = None
    """Which topic; without it every topic with committed offsets."""
    partitions: list[PartitionNumber] | None = None
    """Which partitions of the topic; without it all."""
    dry_run: bool = False
    """Only show the new offsets."""


class OffsetReset(msgspec.Struct):
    """A partition's offset before and after."""

    topic: str
    partition: int
    committed_offset: int | None
    new_offset: int


class OffsetsReset(msgspec.Struct):
    """What was committed."""

    group: str
    dry_run: bool
    offsets: list[OffsetReset]


class GroupDeleted(msgspec.Struct):
    """What was done."""

    group: str
    done: Literal["deleted"]


class GroupsQuery(WindowQuery, frozen=True):
    """Which groups."""

    state: str | None = None
    """Only groups in this state."""
    type: str | None = None
    """Only groups of this type: `classic`, `consumer`, `share`."""
    search: str | None = None
    """Only groups whose names contain this, whatever the case."""
    lag: bool = False
    """Whether to show lag, as of the collector's last pass."""
    sort: Literal["name", "lag", "time_lag_s"] = "name"
    """By name, or the largest lag first."""


async def list_groups(exchange: Exchange) -> GroupPage:
    query: GroupsQuery = exchange.query
    if query.sort == "name":
        window = window_of(await _groups(exchange), None, _name_of, query)
    else:
        number_of = _lag_of if query.sort == "lag" else _time_lag_of

        async def ordered() -> Sequence[GroupView]:
            rows = await _groups(exchange)
            await _add_lag(exchange, rows)
            return in_order(rows, number_of, _name_of, query)

        seen = exchange.context.gateway.view_of(exchange.caller)
        question = seen and ("groups", seen, query.state, query.type, query.search, query.sort, query.reverse)
        window = window_in(await exchange.context.listings.get(question, ordered), number_of, _name_of, query)
    if query.lag or query.sort != "name":
        await _add_lag(exchange, window.rows)  # After paging: a page costs what it shows.
    return GroupPage(*window)


async def _groups(exchange: Exchange) -> list[GroupView]:
    """The groups of all brokers that the query asks for."""
    query: GroupsQuery = exchange.query
    request = ListGroupsRequest([query.state] if query.state else [], [query.type] if query.type else [])
    rows: list[GroupView] = []
    for node_id in sorted(exchange.context.broker.metadata.image.brokers):
        response: ListGroupsResponse = await exchange.context.gateway.call(
            exchange.caller, ApiKey.LIST_GROUPS, request, node_id
        )
        check(response.error_code, "groups")
        rows += [
            GroupView(one.group_id, one.group_state, one.group_type, one.protocol_type)
            for one in response.groups
            if query.search is None or query.search.lower() in one.group_id.lower()
        ]
    return rows


def _name_of(row: GroupView) -> str:
    return row.group


def _lag_of(row: GroupView) -> float:
    return -1 if row.lag is None else row.lag


def _time_lag_of(row: GroupView) -> float:
    return -1 if row.time_lag_s is None else row.time_lag_s


async def _add_lag(exchange: Exchange, rows: list[GroupView]) -> None:
    """Lag of groups that the caller may list; the collectors have it, nothing is computed."""
    found = await exchange.context.lags.groups()
    for row in rows:
        if (lag := found.get(row.group)) is not None:
            row.lag, row.time_lag_s, row.lag_state = lag.records, lag.seconds, lag.state


async def describe_group(exchange: Exchange) -> GroupDescription:
    group = exchange.path["group"]
    state, kind, members = await members_of(exchange.context.gateway, exchange.caller, group)
    committed = await fetch_committed(exchange, group)
    owners = {
        (topic, number): one.member_id
        for one in members
        for topic, numbers in one.assignment.items()
        for number in numbers
    }
    wanted: dict[str, set[int]] = {}
    for topic, numbers in owners:
        wanted.setdefault(topic, set()).add(numbers)
    for topic, rows in committed.items():
        wanted.setdefault(topic, set()).update(rows)
    partitions: list[PartitionLag] = []
    for topic in sorted(wanted):
        ends = await _ends(exchange, topic, sorted(wanted[topic]))
        for number in sorted(wanted[topic]):
            at = committed.get(topic, {}).get(number)
            end = ends.get(number)
            lag = max(0, end - at[0]) if at is not None and end is not None else None
            partitions.append(PartitionLag(topic, number, at[0] if at else None, end, lag, owners.get((topic, number))))
    total = sum(row.lag for row in partitions if row.lag is not None)
    return GroupDescription(group, state, kind, members, partitions, total)


async def _ends(exchange: Exchange, topic: str, numbers: list[int]) -> dict[int, int]:
    known = exchange.context.broker.metadata.image.topics.get(topic)
    there = [number for number in numbers if known is not None and number < len(known.partitions)]
    if not there:
        return {}
    try:
        return await exchange.context.reads.offsets_at(exchange.caller, topic, there, LATEST, may_lack=True)
    except Problem:
        return {}  # No leader answers, or the caller may not describe the topic.


async def fetch_offsets(exchange: Exchange) -> GroupOffsets:
    group = exchange.path["group"]
    committed = await fetch_committed(exchange, group)
    rows = [
        CommittedOffset(topic, number, offset, note)
        for topic, partitions in sorted(committed.items())
        for number, (offset, note) in sorted(partitions.items())
    ]
    return GroupOffsets(group, rows)


async def commit_offsets(exchange: Exchange) -> GroupOffsets:
    wanted: OffsetsToCommit = exchange.body
    group = exchange.path["group"]
    offsets: dict[str, dict[int, int]] = {}
    for row in wanted.offsets:
        topic = await exchange.context.topics.find(exchange.caller, row.topic, may_create=False)
        exchange.context.topics.check_partition(topic, row.partition)
        offsets.setdefault(row.topic, {})[row.partition] = row.offset
    if not offsets:
        raise Problem(400, "offsets is empty: name at least one", pointer=".offsets")
    epoch = wanted.member_epoch
    if wanted.member_id and epoch is None:
        epoch = (await exchange.context.members.find(exchange.caller, group, wanted.member_id)).member_epoch
    await commit(exchange, group, offsets, wanted.member_id or "", -1 if epoch is None else epoch, wanted.metadata)
    return await fetch_offsets(exchange)


async def reset_offsets(exchange: Exchange) -> OffsetsReset:
    wanted: OffsetsToReset = exchange.body
    group = exchange.path["group"]
    if wanted.offset is not None and wanted.shift_by is not None:
        raise Problem(400, "offset and shift_by are given: name one of them")
    if wanted.partitions is not None and wanted.topic is None:
        raise Problem(400, "partitions are given without their topic: name it")
    committed = await fetch_committed(exchange, group)
    rows = await _plan(exchange, wanted, committed)
    if not wanted.dry_run:
        new: dict[str, dict[int, int]] = {}
        for row in rows:
            new.setdefault(row.topic, {})[row.partition] = row.new_offset
        await commit(exchange, group, new)
    return OffsetsReset(group, wanted.dry_run, rows)


async def _plan(exchange: Exchange, wanted: OffsetsToReset, committed: Committed) -> list[OffsetReset]:
    context, caller = exchange.context, exchange.caller
    names = [wanted.topic] if wanted.topic is not None else sorted(committed)
    if not names:
        raise Problem(409, f"group {exchange.path['group']} has committed nothing: name a topic")
    rows: list[OffsetReset] = []
    for name in names:
        topic = await context.topics.find(caller, name, may_create=False)
        numbers = wanted.partitions if wanted.partitions is not None else list(range(len(topic.partitions)))
        for number in numbers:
            context.topics.check_partition(topic, number)
        first, last = await context.reads.offset_ranges(caller, name, numbers)
        timed = await context.reads.offsets_at(caller, name, numbers, time_of(wanted.to))
        for number in dict.fromkeys(numbers):
            at = committed.get(name, {}).get(number)
            before = None if at is None else at[0]
            target = timed[number]
            if wanted.offset is not None:
                target = wanted.offset
            elif wanted.shift_by is not None:
                target = (first[number] if before is None else before) + wanted.shift_by
            rows.append(OffsetReset(name, number, before, min(max(target, first[number]), last[number])))
    return rows


async def delete_group(exchange: Exchange) -> GroupDeleted:
    group = exchange.path["group"]
    response: DeleteGroupsResponse = await exchange.context.gateway.call_coordinator(
        exchange.caller,
        group,
        ApiKey.DELETE_GROUPS,
        DeleteGroupsRequest([group]),
        lambda answer: int(answer.results[0].error_code),
    )
    check(response.results[0].error_code, f"group {group} cannot be deleted")
    return GroupDeleted(group, "deleted")


_GROUP = "/api/v1/groups/{group}"
OPERATIONS = (
    Operation("GET", "/api/v1/groups", list_groups, "List groups", "groups", query=GroupsQuery, answer=GroupPage),
    Operation(
        "GET", _GROUP, describe_group, "Describe a group: members, offsets, lag", "groups", answer=GroupDescription
    ),
    Operation("DELETE", _GROUP, delete_group, "Delete a group without members", "groups", answer=GroupDeleted),
    Operation("GET", f"{_GROUP}/offsets", fetch_offsets, "Committed offsets", "groups", answer=GroupOffsets),
    Operation(
        "POST",
        f"{_GROUP}/offsets",
        commit_offsets,
        "Commit offsets",
        "groups",
        body=OffsetsToCommit,
        answer=GroupOffsets,
    ),
    Operation(
        "POST",
        f"{_GROUP}/offsets/reset",
        reset_offsets,
        "Reset the offsets of a group: read again, or skip",
        "groups",
        body=OffsetsToReset,
        answer=OffsetsReset,
    ),
)

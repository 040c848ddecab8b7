"""Operations of group members: `POST /subscribe`, heartbeat, read, commit by reading on, leave."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from qanat.servers.http.exchange import Exchange
from qanat.servers.http.groups.committed_offsets import commit, fetch_committed
from qanat.servers.http.groups.members import Assignment, Membership
from qanat.servers.http.inputs import Parameters, RequestBody
from qanat.servers.http.operations import Operation
from qanat.servers.http.records.consume import Count, Isolation, Wait
from qanat.servers.http.records.partition_reads import EARLIEST, LATEST
from qanat.servers.http.records.record_json import Encoding, Message
from qanat.servers.http.records.record_parsing import TopicName

GroupName = Annotated[str, Meta(min_length=1, max_length=249)]
_LOOK_AGAIN_S = 0.1


class Subscription(RequestBody, frozen=True):
    """A subscription to topics, as a member of a group."""

    group: GroupName
    topics: Annotated[list[TopicName], Meta(min_length=1, max_length=1000)]
    member_id: str | None = None
    """A known member; without it a new one joins."""
    timeout_ms: Wait = 0
    """How long to wait for partitions that other members must release first."""


class Subscribed(msgspec.Struct):
    """A member's assignment."""

    assigned_partitions: list[int]
    """The numbers of all partitions assigned to this member."""
    member_id: str
    member_epoch: int
    assignment: Assignment
    """The same by topic."""
    heartbeat_interval_ms: int
    session_timeout_ms: int
    """A member that is silent for so long is removed."""


class Left(msgspec.Struct):
    """What was done."""

    member_id: str
    done: Literal["left"]


class GroupRecordsQuery(Parameters, frozen=True):
    """What a member reads next."""

    count: Count = 100
    """How many records at most."""
    timeout_ms: Wait = 0
    """How long to wait for the first record."""
    begin: Literal["earliest", "latest"] = msgspec.field(name="from", default="earliest")
    """Where to begin in partitions without a committed offset."""
    isolation: Isolation = "read_committed"
    """Whether records of transactions are seen before they are committed."""
    encoding: Encoding = "auto"
    """How keys and values are shown."""
    auto_commit: bool = False
    """Whether to commit this answer's records at once: at most once, if the answer gets lost."""


class GroupMessage(Message):
    """A record of one of several topics."""

    topic: str = ""


class TopicOffset(msgspec.Struct):
    """The offset to commit for a partition after this answer's records are handled."""

    topic: str
    partition: int
    offset: int


class GroupRecords(msgspec.Struct):
    """Records for a member, and the offsets to commit once they are handled."""

    messages: list[GroupMessage]
    offsets: list[TopicOffset]
    assignment: Assignment


def _subscribed(exchange: Exchange, membership: Membership) -> Subscribed:
    numbers = [number for name in sorted(membership.assignment) for number in membership.assignment[name]]
    return Subscribed(
        numbers,
        membership.member_id,
        membership.member_epoch,
        membership.assignment,
        membership.heartbeat_interval_ms,
        exchange.context.settings.http_session_timeout_ms,
    )


async def subscribe(exchange: Exchange) -> Subscribed:
    wanted: Subscription = exchange.body
    context = exchange.context
    topics = list(dict.fromkeys(wanted.topics))
    for name in topics:
        await context.topics.find(exchange.caller, name)
    membership = await context.members.join(exchange.caller, wanted.group, topics, wanted.member_id)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + min(wanted.timeout_ms, context.settings.http_poll_max_ms) / 1000
    while not membership.assignment and loop.time() < deadline:
        await asyncio.sleep(_LOOK_AGAIN_S)
        membership = await context.members.beat(exchange.caller, wanted.group, membership.member_id)
    return _subscribed(exchange, membership)


async def heartbeat(exchange: Exchange) -> Subscribed:
    group, member_id = exchange.path["group"], exchange.path["member"]
    return _subscribed(exchange, await exchange.context.members.beat(exchange.caller, group, member_id))


async def leave_group(exchange: Exchange) -> Left:
    group, member_id = exchange.path["group"], exchange.path["member"]
    await exchange.context.members.leave(exchange.caller, group, member_id)
    return Left(member_id, "left")


async def read_as_member(exchange: Exchange) -> GroupRecords:
    query: GroupRecordsQuery = exchange.query
    context, group, member_id = exchange.context, exchange.path["group"], exchange.path["member"]
    loop = asyncio.get_running_loop()
    deadline = loop.time() + min(query.timeout_ms, context.settings.http_poll_max_ms) / 1000
    while True:
        membership = await context.members.beat(exchange.caller, group, member_id)
        # A member that waits for longer than its session must send heartbeats, and may get other partitions.
        found = await _read(exchange, membership, min(deadline, loop.time() + _beat_s(exchange)))
        if found.messages or loop.time() >= deadline:
            break
    if query.auto_commit and found.offsets:
        new: dict[str, dict[int, int]] = {}
        for row in found.offsets:
            new.setdefault(row.topic, {})[row.partition] = row.offset
        await commit(exchange, group, new, member_id, membership.member_epoch)
    return found


def _beat_s(exchange: Exchange) -> float:
    return exchange.context.settings.http_session_timeout_ms / 3000


async def _read(exchange: Exchange, membership: Membership, deadline: float) -> GroupRecords:
    """Records of the member's partitions as assigned now; waits for the first until the deadline."""
    query: GroupRecordsQuery = exchange.query
    context = exchange.context
    loop = asyncio.get_running_loop()
    committed = await fetch_committed(exchange, exchange.path["group"])
    found = GroupRecords([], [], membership.assignment)
    count = min(query.count, context.settings.http_max_poll_records)
    names = sorted(membership.assignment)
    starts: dict[str, dict[int, int]] = {}
    moved: dict[str, dict[int, int]] = {name: {} for name in names}
    for name in names:
        starts[name] = await _starts(exchange, name, membership.assignment[name], committed.get(name, {}), query)
    while True:
        for name in names:
            if len(found.messages) >= count:
                break
            positions = dict(starts[name])
            left_ms = round(max(0.0, deadline - loop.time()) * 1000)
            # With one topic the broker wakes this request; with several, each is polled in turn.
            wait_ms = 0 if found.messages else left_ms if len(names) == 1 else min(left_ms, 100)
            messages = await context.reads.read(
                exchange.caller,
                name,
                positions,
                count=count - len(found.messages),
                max_bytes=context.settings.http_answer_max_bytes,
                wait_ms=wait_ms,
                is_committed=query.isolation == "read_committed",
                encoding=query.encoding,
            )
            found.messages += [_with_topic(name, message) for message in messages]
            moved[name] |= {number: offset for number, offset in positions.items() if offset != starts[name][number]}
            starts[name] = positions
        found.offsets = [TopicOffset(name, *row) for name, rows in moved.items() for row in rows.items()]
        if found.messages or loop.time() >= deadline:
            return found
        if not names:
            await asyncio.sleep(_LOOK_AGAIN_S)
            return found


async def _starts(
    exchange: Exchange,
    topic: str,
    numbers: list[int],
    committed: dict[int, tuple[int, str]],
    query: GroupRecordsQuery,
) -> dict[int, int]:
    """The positions of a member: its committed offsets, as far as those still exist."""
    reads = exchange.context.reads
    first = await reads.offsets_at(exchange.caller, topic, numbers, EARLIEST)
    missing = first if query.begin == "earliest" else {}
    if query.begin == "latest" and any(number not in committed for number in numbers):
        missing = await reads.offsets_at(exchange.caller, topic, numbers, LATEST)
    return {
        number: max(committed[number][0], first[number]) if number in committed else missing[number]
        for number in numbers
    }


def _with_topic(topic: str, message: Message) -> GroupMessage:
    return GroupMessage(
        message.partition,
        message.offset,
        message.timestamp,
        message.key,
        message.value,
        message.headers,
        message.key_encoding,
        message.value_encoding,
        topic,
    )


_MEMBER = "/api/v1/groups/{group}/members/{member}"
OPERATIONS = (
    Operation(
        "POST",
        "/subscribe",
        subscribe,
        "Join a group, or return with a member_id: the assigned partitions",
        "groups",
        body=Subscription,
        answer=Subscribed,
        waits=True,
        is_long_poll=True,
    ),
    Operation(
        "POST",
        f"{_MEMBER}/heartbeat",
        heartbeat,
        "Send a heartbeat; the assignment from now on",
        "groups",
        answer=Subscribed,
    ),
    Operation(
        "GET",
        f"{_MEMBER}/records",
        read_as_member,
        "Records of the member's partitions from the committed offsets on; also a heartbeat",
        "groups",
        query=GroupRecordsQuery,
        answer=GroupRecords,
        waits=True,
        is_long_poll=True,
    ),
    Operation("DELETE", _MEMBER, leave_group, "Leave a group", "groups", answer=Left),
)

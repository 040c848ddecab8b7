"""Operations of group members: `POST /subscribe`, heartbeat, read, commit by reading on, leave."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from qanat.servers.http.exchange import Exchange
from qanat.servers.http.groups.committed_offsets import commit, fetch_committed
from qanat.servers.http.groups.members import Assignment, Membership
from qanat.servers.http.operations import Asked, Operation, Parameters
from qanat.servers.http.records.consume import Count, Isolation, Wait
from qanat.servers.http.records.partition_reads import EARLIEST, LATEST
from qanat.servers.http.records.record_json import Encoding, Message
from qanat.servers.http.records.record_parsing import TopicName

GroupName = Annotated[str, Meta(min_length=1, max_length=249)]
_LOOK_AGAIN_S = 0.1


class Subscription(Asked, frozen=True):
    """A wish to read topics together with the other members of a group."""

    group: GroupName
    topics: Annotated[list[TopicName], Meta(min_length=1, max_length=1000)]
    member_id: str | None = None
    """Who comes back; without it a new member is made."""
    timeout_ms: Wait = 0
    """How long to wait for partitions, where others have to let go of them first."""


class Subscribed(msgspec.Struct):
    """What a member reads."""

    assigned_partitions: list[int]
    """The numbers of all partitions that are this member's now."""
    member_id: str
    member_epoch: int
    assignment: Assignment
    """The same by topic."""
    heartbeat_interval_ms: int
    session_timeout_ms: int
    """A member that is silent for so long is out."""


class Left(msgspec.Struct):
    """What was done."""

    member_id: str
    done: Literal["left"]


class GroupRecordsQuery(Parameters, frozen=True):
    """What a member reads next."""

    count: Count = 100
    """How many records at most."""
    timeout_ms: Wait = 0
    """How long to wait where there is nothing yet."""
    begin: Literal["earliest", "latest"] = msgspec.field(name="from", default="earliest")
    """Where to begin in partitions that nothing is committed for."""
    isolation: Isolation = "read_committed"
    """Whether records of transactions are seen before they are committed."""
    encoding: Encoding = "auto"
    """How keys and values are told."""
    auto_commit: bool = False
    """Whether what this answer brings counts as read at once; at most once, should the answer get lost."""


class GroupMessage(Message):
    """A record of one of several topics."""

    topic: str = ""


class TopicOffset(msgspec.Struct):
    """Where to go on in a partition: what is committed after this answer's records were handled."""

    topic: str
    partition: int
    offset: int


class GroupRecords(msgspec.Struct):
    """Records for a member, and what to commit once they are handled."""

    messages: list[GroupMessage]
    offsets: list[TopicOffset]
    assignment: Assignment


def _told(exchange: Exchange, membership: Membership) -> Subscribed:
    numbers = [number for name in sorted(membership.assignment) for number in membership.assignment[name]]
    return Subscribed(
        numbers,
        membership.member_id,
        membership.member_epoch,
        membership.assignment,
        membership.heartbeat_interval_ms,
        exchange.door.settings.http_session_timeout_ms,
    )


async def subscribe(exchange: Exchange) -> Subscribed:
    wanted: Subscription = exchange.body
    door = exchange.door
    topics = list(dict.fromkeys(wanted.topics))
    for name in topics:
        await door.topics.find(exchange.caller, name)
    membership = await door.members.join(exchange, wanted.group, topics, wanted.member_id)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + min(wanted.timeout_ms, door.settings.http_poll_max_ms) / 1000
    while not membership.assignment and loop.time() < deadline:
        await asyncio.sleep(_LOOK_AGAIN_S)
        membership = await door.members.beat(exchange, wanted.group, membership.member_id)
    return _told(exchange, membership)


async def heartbeat(exchange: Exchange) -> Subscribed:
    group, member_id = exchange.path["group"], exchange.path["member"]
    return _told(exchange, await exchange.door.members.beat(exchange, group, member_id))


async def leave_group(exchange: Exchange) -> Left:
    group, member_id = exchange.path["group"], exchange.path["member"]
    await exchange.door.members.leave(exchange, group, member_id)
    return Left(member_id, "left")


async def read_as_member(exchange: Exchange) -> GroupRecords:
    query: GroupRecordsQuery = exchange.query
    door, group, member_id = exchange.door, exchange.path["group"], exchange.path["member"]
    loop = asyncio.get_running_loop()
    deadline = loop.time() + min(query.timeout_ms, door.settings.http_poll_max_ms) / 1000
    while True:
        membership = await door.members.beat(exchange, group, member_id)
        # Who waits for longer than its session must be heard of meanwhile, and may be given other partitions.
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
    return exchange.door.settings.http_session_timeout_ms / 3000


async def _read(exchange: Exchange, membership: Membership, deadline: float) -> GroupRecords:
    """Records of a member's partitions as they are assigned now; until the deadline, where there are none."""
    query: GroupRecordsQuery = exchange.query
    door = exchange.door
    loop = asyncio.get_running_loop()
    committed = await fetch_committed(exchange, exchange.path["group"])
    found = GroupRecords([], [], membership.assignment)
    count = min(query.count, door.settings.http_max_poll_records)
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
            # With one topic the broker wakes us; with several, each is looked at in turn.
            wait_ms = 0 if found.messages else left_ms if len(names) == 1 else min(left_ms, 100)
            messages = await door.reading.read(
                exchange.caller,
                name,
                positions,
                count=count - len(found.messages),
                max_bytes=door.settings.http_answer_max_bytes,
                wait_ms=wait_ms,
                is_committed=query.isolation == "read_committed",
                encoding=query.encoding,
            )
            found.messages += [_of(name, message) for message in messages]
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
    """Where a member goes on: what is committed, as far as that is still there."""
    reading = exchange.door.reading
    first = await reading.offsets_at(exchange.caller, topic, numbers, EARLIEST)
    missing = first if query.begin == "earliest" else {}
    if query.begin == "latest" and any(number not in committed for number in numbers):
        missing = await reading.offsets_at(exchange.caller, topic, numbers, LATEST)
    return {
        number: max(committed[number][0], first[number]) if number in committed else missing[number]
        for number in numbers
    }


def _of(topic: str, message: Message) -> GroupMessage:
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
        "Join a group, or come back with a member_id: which partitions to read",
        "groups",
        body=Subscription,
        answer=Subscribed,
        waits=True,
    ),
    Operation(
        "POST",
        f"{_MEMBER}/heartbeat",
        heartbeat,
        "Show that a member lives; what it reads from now on",
        "groups",
        answer=Subscribed,
    ),
    Operation(
        "GET",
        f"{_MEMBER}/records",
        read_as_member,
        "Records of the member's partitions, from what is committed on; also a heartbeat",
        "groups",
        query=GroupRecordsQuery,
        answer=GroupRecords,
        waits=True,
    ),
    Operation("DELETE", _MEMBER, leave_group, "Leave a group", "groups", answer=Left),
)

"""Operations of queues, which are share groups (KIP-932): members acquire single records and acknowledge them.

    acquire       records that no other member gets until they are acknowledged, or their lock expires
    acknowledge   accept: done; release: another member may try; reject: none shall; renew: extend the lock

A member is its id and nothing else: its epoch comes from the coordinator, and each request opens a session of its own
with the leaders, so that any node answers. Acquired records stay with the member after the request.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from qanat.broker.share.share_sessions import Member
from qanat.connection.faults import RETRIABLE, UnreachableError, error_code
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicId
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.inputs import RequestBody
from qanat.servers.http.operations import Operation
from qanat.servers.http.problems import Problem, check, problem_of
from qanat.servers.http.records.consume import Count, Wait
from qanat.servers.http.records.record_json import Encoding, Message, to_message
from qanat.servers.http.records.record_parsing import TopicName
from qanat.wire.kafka.messages.fetch import PartitionData as Fetched
from qanat.wire.kafka.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from qanat.wire.kafka.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest, ShareFetchResponse
from qanat.wire.kafka.messages.share_fetch import PartitionData as ShareFetched
from qanat.wire.kafka.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from qanat.wire.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    pass

Action = Literal["accept", "release", "reject", "renew"]
_ACTIONS = {"accept": 1, "release": 2, "reject": 3, "renew": 4}
_JOIN, _LEAVE = 0, -1
_FIRST, _SECOND, _FINAL = 0, 1, -1
_EXACTLY = 1
"""No more records than requested (KIP-1206)."""
_ATTEMPTS = 5
_LOOK_AGAIN_S = 0.1

Assignment = dict[bytes, list[int]]
"""Partitions by topic id."""
Acknowledgements = dict[bytes, dict[int, list[AcknowledgementBatch]]]
"""Acknowledgements by topic id and partition."""


class ToAcquire(RequestBody, frozen=True):
    """A request for records."""

    topics: Annotated[list[TopicName], Meta(min_length=1, max_length=1000)]
    member_id: str | None = None
    """A known member; without it a new one joins."""
    count: Count = 1
    """How many records at most."""
    timeout_ms: Wait = 0
    """How long to wait for the first record."""
    encoding: Encoding = "auto"
    """How keys and values are shown."""


class QueueMessage(Message):
    """An acquired record."""

    topic: str = ""
    delivery_count: int = 1
    """How often it was delivered, this time included."""


class Acquired(msgspec.Struct):
    """The records that the member acquired."""

    member_id: str
    messages: list[QueueMessage]
    lock_timeout_ms: int
    """Another member gets them if they are not acknowledged for so long."""


class Acknowledgement(RequestBody, frozen=True):
    """The outcome of a record."""

    topic: TopicName
    partition: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    offset: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    action: Action = "accept"


class ToAcknowledge(RequestBody, frozen=True):
    """The outcomes of records."""

    member_id: Annotated[str, Meta(min_length=1)]
    records: Annotated[list[Acknowledgement], Meta(min_length=1)]


class Acknowledged(msgspec.Struct):
    """What was done."""

    acknowledged: int


class QueueLeft(msgspec.Struct):
    """What was done: other members get the records of this one."""

    member_id: str
    done: Literal["left"]


async def acquire(exchange: Exchange) -> Acquired:
    wanted: ToAcquire = exchange.body
    context, group = exchange.context, exchange.path["group"]
    names = list(dict.fromkeys(wanted.topics))
    for name in names:
        await context.topics.find(exchange.caller, name)
    member_id = wanted.member_id or str(uuid.uuid4())
    loop = asyncio.get_running_loop()
    deadline = loop.time() + min(wanted.timeout_ms, context.settings.http_poll_max_ms) / 1000
    give_up_at = loop.time() + context.gateway.timeout_s
    count = min(wanted.count, context.settings.http_max_poll_records)
    while True:
        assignment = await _beat(exchange, group, member_id, names)
        left_ms = round(max(0.0, deadline - loop.time()) * 1000)
        if assignment:
            # A new member of a busy group may get partitions only with its next heartbeat.
            found, is_moving = await _fetch(exchange, group, member_id, assignment, wanted, count, min(left_ms, 5_000))
            if found.messages or (left_ms == 0 and not (is_moving and loop.time() < give_up_at)):
                return found
            if is_moving:
                await asyncio.sleep(_LOOK_AGAIN_S)
        elif left_ms == 0:
            return Acquired(member_id, [], 0)
        else:
            await asyncio.sleep(_LOOK_AGAIN_S)


async def _beat(exchange: Exchange, group: str, member_id: str, topics: list[str]) -> Assignment:
    """Join, or send a heartbeat; the partitions assigned to the member."""
    epoch = await _epoch(exchange, group, member_id)
    for _ in range(_ATTEMPTS):
        request = ShareGroupHeartbeatRequest(group, member_id, epoch, subscribed_topic_names=topics)
        response: ShareGroupHeartbeatResponse = await exchange.context.gateway.call_coordinator(
            exchange.caller, group, ApiKey.SHARE_GROUP_HEARTBEAT, request, lambda answer: int(answer.error_code)
        )
        if response.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            epoch = await _epoch(exchange, group, member_id)
            continue
        check(response.error_code, f"queue {group} cannot be joined", response.error_message)
        if response.assignment is None:
            return await _assignment(exchange, group, member_id)
        return {bytes(row.topic_id): list(row.partitions) for row in response.assignment.topic_partitions}
    raise problem_of(response.error_code, f"member {member_id} of queue {group}", response.error_message)


async def _describe(exchange: Exchange, group: str) -> ShareGroupDescribeResponse:
    response: ShareGroupDescribeResponse = await exchange.context.gateway.call_coordinator(
        exchange.caller,
        group,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ShareGroupDescribeRequest([group]),
        lambda answer: int(answer.groups[0].error_code),
    )
    return response


async def _epoch(exchange: Exchange, group: str, member_id: str) -> int:
    """The member's epoch; that of a new member where it is unknown."""
    for one in (await _describe(exchange, group)).groups[0].members:
        if one.member_id == member_id:
            return one.member_epoch
    return _JOIN


async def _assignment(exchange: Exchange, group: str, member_id: str) -> Assignment:
    for one in (await _describe(exchange, group)).groups[0].members:
        if one.member_id == member_id:
            return {bytes(row.topic_id): list(row.partitions) for row in one.assignment.topic_partitions}
    return {}


async def _fetch(
    exchange: Exchange,
    group: str,
    member_id: str,
    assignment: Assignment,
    wanted: ToAcquire,
    count: int,
    wait_ms: int,
) -> tuple[Acquired, bool]:
    """Records from every leader that answers, and whether one does not, because it is being replaced."""
    is_moving = False
    messages: list[QueueMessage] = []
    lock_ms = 0
    by_leader = _by_leader(exchange, assignment)
    for number, (leader, topics) in enumerate(by_leader.items()):
        is_last = number == len(by_leader) - 1
        request = ShareFetchRequest(
            group,
            member_id,
            _FIRST,
            max_wait_ms=wait_ms if is_last and not messages else 0,
            min_bytes=1,
            max_bytes=exchange.context.settings.http_answer_max_bytes,
            max_records=count - len(messages),
            batch_size=count,
            share_acquire_mode=_EXACTLY,
            topics=topics,
        )
        try:
            response: ShareFetchResponse = await exchange.context.gateway.call(
                exchange.caller, ApiKey.SHARE_FETCH, request, leader
            )
        except UnreachableError:
            is_moving = True
            continue
        _end_session(exchange, group, member_id)
        check(response.error_code, f"queue {group}", response.error_message)
        lock_ms = response.acquisition_lock_timeout_ms
        for topic in response.responses:
            for row in topic.partitions:
                if error_code(row.error_code) in RETRIABLE:
                    is_moving = True
                    continue
                messages += await _messages(exchange, bytes(topic.topic_id), row, wanted.encoding)
        if len(messages) >= count:
            break
    return Acquired(member_id, messages, lock_ms), is_moving


def _by_leader(exchange: Exchange, assignment: Assignment) -> dict[int, list[FetchTopic]]:
    found: dict[int, list[FetchTopic]] = {}
    for topic_id, numbers in assignment.items():
        name = _name(exchange, topic_id)
        rows: dict[int, list[FetchPartition]] = {}
        for number in numbers:
            rows.setdefault(exchange.context.gateway.leader(name, number), []).append(FetchPartition(number))
        for leader, partitions in rows.items():
            found.setdefault(leader, []).append(FetchTopic(topic_id, partitions))
    return found


def _name(exchange: Exchange, topic_id: bytes) -> str:
    topic = exchange.context.broker.metadata.image.topics_by_id.get(TopicId.of(topic_id))
    return "" if topic is None else topic.name


def _end_session(exchange: Exchange, group: str, member_id: str) -> None:
    """End the session of this request; acquired records stay with the member."""
    exchange.context.broker.share_partitions.sessions.end(Member(group, member_id))


async def _messages(exchange: Exchange, topic_id: bytes, row: ShareFetched, encoding: Encoding) -> list[QueueMessage]:
    name = _name(exchange, topic_id)
    check(row.error_code, f"topic {name} partition {row.partition_index}", row.error_message)
    if not row.acquired_records:
        return []
    held = {
        offset: one.delivery_count
        for one in row.acquired_records
        for offset in range(one.first_offset, one.last_offset + 1)
    }
    fetched = Fetched(row.partition_index, records=row.records)
    batches, found = exchange.context.reads.opened(fetched, min(held)), []
    while (records := await batches.next()) is not None:
        for offset, timestamp, raw in records:
            if offset in held:
                one = to_message(row.partition_index, offset, timestamp, raw, encoding)
                fields = {field: getattr(one, field) for field in one.__struct_fields__}
                found.append(QueueMessage(**fields, topic=name, delivery_count=held[offset]))
    return found


async def acknowledge(exchange: Exchange) -> Acknowledged:
    wanted: ToAcknowledge = exchange.body
    context, group = exchange.context, exchange.path["group"]
    image = context.broker.metadata.image
    rows: dict[tuple[int, bool], Acknowledgements] = {}
    for one in sorted(wanted.records, key=lambda one: one.offset):
        topic = await context.topics.find(exchange.caller, one.topic, may_create=False)
        context.topics.check_partition(topic, one.partition)
        where = (context.gateway.leader(one.topic, one.partition), one.action == "renew")
        topic_id = image.topics[one.topic].identity.value.bytes
        batches = rows.setdefault(where, {}).setdefault(topic_id, {}).setdefault(one.partition, [])
        batches.append(AcknowledgementBatch(one.offset, one.offset, [_ACTIONS[one.action]]))
    for (leader, is_renewal), topics in rows.items():
        await _acknowledge(exchange, group, wanted.member_id, leader, topics, is_renewal=is_renewal)
    return Acknowledged(len(wanted.records))


async def _acknowledge(
    exchange: Exchange,
    group: str,
    member_id: str,
    leader: int,
    topics: Acknowledgements,
    *,
    is_renewal: bool = False,
    epoch: int = _SECOND,
) -> None:
    named = [FetchTopic(topic_id, [FetchPartition(number) for number in rows]) for topic_id, rows in topics.items()]
    acknowledged = [
        AcknowledgeTopic(topic_id, [AcknowledgePartition(number, batches) for number, batches in rows.items()])
        for topic_id, rows in topics.items()
    ]
    gateway = exchange.context.gateway
    for _ in range(_ATTEMPTS):
        # A session for this request alone: it acquires no records.
        beginning = ShareFetchRequest(group, member_id, _FIRST, max_records=0, topics=named)
        begun: ShareFetchResponse = await gateway.call(exchange.caller, ApiKey.SHARE_FETCH, beginning, leader)
        check(begun.error_code, f"queue {group}", begun.error_message)
        request = ShareAcknowledgeRequest(group, member_id, epoch, is_renewal, acknowledged)
        response: ShareAcknowledgeResponse = await gateway.call(
            exchange.caller, ApiKey.SHARE_ACKNOWLEDGE, request, leader
        )
        if response.error_code not in (
            ErrorCode.INVALID_SHARE_SESSION_EPOCH,
            ErrorCode.SHARE_SESSION_NOT_FOUND,
        ):
            break  # Otherwise another request of the same member intervened.
    _end_session(exchange, group, member_id)
    check(response.error_code, f"queue {group}", response.error_message)
    for topic in response.responses:
        for row in topic.partitions:
            # A new leader has delivered nothing yet, and answers INVALID_REQUEST for such offsets.
            if row.error_code in (ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST):
                raise Problem(
                    409,
                    f"member {member_id} does not hold these records of topic {_name(exchange, bytes(topic.topic_id))} "
                    f"partition {row.partition_index} (any more): their lock ran out, or they were acknowledged before",
                    error=ErrorCode.INVALID_RECORD_STATE,
                )
            check(row.error_code, f"partition {row.partition_index}", row.error_message)


async def leave_queue(exchange: Exchange) -> QueueLeft:
    group, member_id = exchange.path["group"], exchange.path["member"]
    assignment = await _assignment(exchange, group, member_id)
    for leader, topics in _by_leader(exchange, assignment).items():
        nothing: Acknowledgements = {
            topic.topic_id: {row.partition_index: [] for row in topic.partitions} for topic in topics
        }
        await _acknowledge(exchange, group, member_id, leader, nothing, epoch=_FINAL)
    request = ShareGroupHeartbeatRequest(group, member_id, _LEAVE)
    response: ShareGroupHeartbeatResponse = await exchange.context.gateway.call_coordinator(
        exchange.caller, group, ApiKey.SHARE_GROUP_HEARTBEAT, request, lambda answer: int(answer.error_code)
    )
    check(response.error_code, f"member {member_id} of queue {group}", response.error_message)
    return QueueLeft(member_id, "left")


_QUEUE = "/api/v1/queues/{group}"
OPERATIONS = (
    Operation(
        "POST",
        f"{_QUEUE}/acquire",
        acquire,
        "Acquire records: no other member gets them until they are acknowledged; joins the queue",
        "queues",
        body=ToAcquire,
        answer=Acquired,
        waits=True,
        is_long_poll=True,
    ),
    Operation(
        "POST",
        f"{_QUEUE}/acknowledge",
        acknowledge,
        "Acknowledge records: accept, release, reject, renew",
        "queues",
        body=ToAcknowledge,
        answer=Acknowledged,
    ),
    Operation(
        "DELETE",
        f"{_QUEUE}/members/{{member}}",
        leave_queue,
        "Leave a queue: other members get the records of this one",
        "queues",
        answer=QueueLeft,
    ),
)

"""Acknowledgements and sessions: what ShareFetch and ShareAcknowledge share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from qanat.api.request_context import RequestContext
from qanat.broker.replicas.durable_acknowledgement import acknowledged
from qanat.broker.share.share_partition import Durable
from qanat.broker.share.share_sessions import Member
from qanat.groups.consumer.records import TopicIdPartition
from qanat.groups.share.partition import Acknowledgement
from qanat.groups.share.record_states import AcknowledgeType
from qanat.groups.share.state_records import ShareKey
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError

if TYPE_CHECKING:
    from qanat.wire.kafka.messages.share_acknowledge import ShareAcknowledgeRequest
    from qanat.wire.kafka.messages.share_fetch import ShareFetchRequest


class AcknowledgementRow(Protocol):
    """A range of records and its acknowledge types, as both requests have it."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


Acknowledgements = dict[TopicIdPartition, Sequence[AcknowledgementRow]]
Outcomes = dict[TopicIdPartition, ErrorCode]
_DURABLE_S = 30.0
"""How long an answer waits for the disk: as long as clients wait for an answer. Its requests name no timeout."""


def acknowledgements_of(request: ShareFetchRequest | ShareAcknowledgeRequest) -> Acknowledgements:
    """The acknowledgements that a request carries, by partition."""
    return {
        TopicIdPartition(bytes(topic.topic_id), row.partition_index): row.acknowledgement_batches
        for topic in request.topics
        for row in topic.partitions
        if row.acknowledgement_batches
    }


def problem_of(batches: Iterable[AcknowledgementRow], *, may_renew: bool) -> str | None:
    """Why these acknowledgements are invalid, in Kafka's words; None where they are valid."""
    end_offset = -1
    for batch in batches:
        types = batch.acknowledge_types
        if batch.first_offset > batch.last_offset:
            return f"Invalid acknowledgement batch: first offset {batch.first_offset} is behind its last one"
        if batch.first_offset < end_offset:
            return f"Acknowledgement batches are not in order at offset {batch.first_offset}"
        if not types:
            return "An acknowledgement batch has no acknowledge types"
        if len(types) > 1 and len(types) != batch.last_offset - batch.first_offset + 1:
            return f"{len(types)} acknowledge types do not fit the offsets of their batch"
        most = AcknowledgeType.RENEW if may_renew else AcknowledgeType.REJECT
        if min(types) < AcknowledgeType.GAP or max(types) > most:
            return f"There is no such acknowledge type: {min(types) if min(types) < 0 else max(types)}"
        end_offset = batch.last_offset
    return None


async def acknowledge(
    member: Member, acknowledgements: Acknowledgements, context: RequestContext, *, may_renew: bool
) -> dict[TopicIdPartition, Durable | ErrorCode]:
    """Apply a member's acknowledgements by partition; a future stands for what is not durable yet."""
    shares = context.broker.share_partitions
    outcomes: dict[TopicIdPartition, Durable | ErrorCode] = {}
    async for at, rows in context.yielder.over(acknowledgements.items()):
        if problem_of(rows, may_renew=may_renew) is not None:
            outcomes[at] = ErrorCode.INVALID_REQUEST
            continue
        key = ShareKey(member.group_id, at.topic_id, at.partition)
        led = shares.led(key) or await shares.lead(key)
        if isinstance(led, ErrorCode):
            outcomes[at] = led
            continue
        batches = [Acknowledgement(row.first_offset, row.last_offset, row.acknowledge_types) for row in rows]
        outcomes[at] = led.acknowledge(member.member_id, batches)
    return outcomes


async def wait_until_durable(
    outcomes: dict[TopicIdPartition, Durable | ErrorCode], context: RequestContext
) -> Outcomes:
    """The outcomes, once all are durable or their time is up."""
    settled: Outcomes = {}
    waiting: dict[Durable, TopicIdPartition] = {}
    for at, outcome in outcomes.items():
        if isinstance(outcome, ErrorCode):
            settled[at] = outcome
        else:
            settled[at] = ErrorCode.NONE
            waiting[outcome] = at

    def refuse(at: TopicIdPartition, fault: QanatError) -> None:
        settled[at] = fault.code

    await acknowledged(waiting, refuse, context.broker.ack_timeouts, _DURABLE_S)
    return settled


def release_on_disconnect(context: RequestContext) -> None:
    """Release a client's records when it disconnects; that counts as a delivery, unless the broker closed.

    Another broker's HTTP server acts for members that return over other connections: its end releases nothing.
    """
    shares, connection = context.broker.share_partitions, context.caller
    if connection in shares.watched:
        return
    shares.watched.add(connection)
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def give_back(_: asyncio.Future[None]) -> None:
        for group_id, member_id in shares.sessions.lose(connection):
            if not connection.is_inter_broker:
                shares.release(group_id, member_id, is_attempt=not connection.is_closed_by_broker)

    gone.add_done_callback(give_back)
    connection.cancel_on_disconnect(gone)


def end_broker_session(member: Member, context: RequestContext) -> None:
    """End a session that another broker opened for a member: it lasts for a single request."""
    if context.caller.is_inter_broker:
        context.broker.share_partitions.sessions.end(member)


def end_session(member: Member, context: RequestContext) -> None:
    """End the session of a member that leaves; its records are released without counting a delivery."""
    shares = context.broker.share_partitions
    shares.sessions.end(member)
    shares.release(*member, is_attempt=False)

"""What ShareFetch and ShareAcknowledge have in common: sessions, and what members say of records that they hold."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol

from qanat.api.request_context import RequestContext
from qanat.broker.share.share_partition import Durable
from qanat.broker.share.share_sessions import Member
from qanat.groups.consumer.records import TopicIdPartition
from qanat.groups.share.partition import Acknowledgement
from qanat.groups.share.record_states import AcknowledgeType
from qanat.groups.share.state_records import ShareKey
from qanat.model.error_codes import ErrorCode


class AcknowledgementRow(Protocol):
    """A range of records and what is said of them, as both requests have it."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


Said = dict[TopicIdPartition, Sequence[AcknowledgementRow]]
Outcomes = dict[TopicIdPartition, ErrorCode]


def problem_of(batches: Iterable[AcknowledgementRow], *, may_renew: bool) -> str | None:
    """Why nothing of this can be taken, in Kafka's words; None where it can."""
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
    member: Member, said: Said, context: RequestContext, *, may_renew: bool
) -> dict[TopicIdPartition, Durable | ErrorCode]:
    """Take in what a member says, partition by partition; what is durable later is a future."""
    shares = context.broker.share_partitions
    outcomes: dict[TopicIdPartition, Durable | ErrorCode] = {}
    async for at, rows in context.yielder.over(said.items()):
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


async def settled(outcomes: dict[TopicIdPartition, Durable | ErrorCode]) -> Outcomes:
    """What became of it all, once it is durable."""
    return {
        at: outcome if isinstance(outcome, ErrorCode) else (await outcome).error for at, outcome in outcomes.items()
    }


def watch(context: RequestContext) -> None:
    """When this client is gone, what it holds is given back: it has had its try, unless it was us who hung up.

    Another broker's HTTP door speaks for members that come back by other ways: nothing is over when it is gone.
    """
    shares, connection = context.broker.share_partitions, context.caller
    if connection in shares.watched:
        return
    shares.watched.add(connection)
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def give_back(_: asyncio.Future[None]) -> None:
        for group_id, member_id in shares.sessions.lose(connection):
            if not connection.is_inter_broker:
                shares.release(group_id, member_id, is_attempt=not connection.is_let_go)

    gone.add_done_callback(give_back)
    connection.wait_with(gone)


def end_exchange(member: Member, context: RequestContext) -> None:
    """Sessions are for clients that stay; where another broker asks for a member, one lasts for a single exchange."""
    if context.caller.is_inter_broker:
        context.broker.share_partitions.sessions.end(member)


def end_session(member: Member, context: RequestContext) -> None:
    """A member that says good-bye has not seen what it still holds: no delivery is counted."""
    shares = context.broker.share_partitions
    shares.sessions.end(member)
    shares.release(*member, is_attempt=False)

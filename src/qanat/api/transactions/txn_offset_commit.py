"""TxnOffsetCommit (28): offsets that are committed with the transaction.

v2   leader epochs    v3   flexible; member, generation and instance (KIP-447)    v4   TRANSACTION_ABORTABLE
v5   transaction version 2: this request adds the group's partition (KIP-890)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qanat.api.groups.authorization import commits_offsets
from qanat.api.groups.offset_rows import offsets_of
from qanat.api.request_context import RequestContext
from qanat.api.transactions.transaction_errors import abortable_as
from qanat.groups.replies import CommitReply, PartitionOutcome
from qanat.groups.requests import CommitTransactionOffsets, OffsetToCommit
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.transactions.records import CLASSIC, EPOCH_PER_TRANSACTION
from qanat.wire.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_ABORTABLE_FROM, _ADDS_FROM = 4, 5


def authorize(request: TxnOffsetCommitRequest, access: AccessCheck) -> Verdict:
    """WRITE on the transactional id, READ on the group and on each topic."""
    code = ErrorCode.NONE
    if not access.may_transactional_id(Operation.WRITE, request.transactional_id):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not access.may_group(Operation.READ, request.group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED

    def refused(topic: TxnOffsetCommitRequestTopic, code: ErrorCode) -> TxnOffsetCommitResponseTopic:
        rows = [TxnOffsetCommitResponsePartition(row.partition_index, code) for row in topic.partitions]
        return TxnOffsetCommitResponseTopic(topic.name, rows)

    return commits_offsets(request, access, code, refused, TxnOffsetCommitResponse)


def handle(request: TxnOffsetCommitRequest, context: RequestContext) -> object:
    return context.broker.park(_commit(request, context))


async def _commit(request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
    yielder = context.yielder
    offsets = [one async for one in yielder.over(offsets_of(request))]
    # In pieces: they become visible together, when the transaction is committed.
    done = [] if offsets else [*await _commit_piece(request, (), context)]
    async for piece in yielder.pieces(offsets):
        done += await _commit_piece(request, piece, context)
    outcomes = iter(done)

    def next_error() -> ErrorCode:
        return abortable_as(next(outcomes).error, context.version, known_from=_ABORTABLE_FROM)

    topics = [
        TxnOffsetCommitResponseTopic(
            topic.name,
            [
                TxnOffsetCommitResponsePartition(one.partition_index, next_error())
                async for one in yielder.over(topic.partitions)
            ],
        )
        async for topic in yielder.over(request.topics)
    ]
    return TxnOffsetCommitResponse(topics=topics)


async def _commit_piece(
    request: TxnOffsetCommitRequest, offsets: Sequence[OffsetToCommit], context: RequestContext
) -> Sequence[PartitionOutcome]:
    asked = CommitTransactionOffsets(
        group_id=request.group_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        offsets=tuple(offsets),
        member_id=request.member_id,
        generation_id=request.generation_id,
        instance_id=request.group_instance_id,
    )
    version = EPOCH_PER_TRANSACTION if context.version >= _ADDS_FROM else CLASSIC
    reply = await context.broker.groups.commit_in_transaction(request.transactional_id, asked, version)
    assert isinstance(reply, CommitReply)
    return reply.partitions

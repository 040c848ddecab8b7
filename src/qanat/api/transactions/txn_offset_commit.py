"""TxnOffsetCommit (28): positions that count once the transaction commits.

v2   leader epochs    v3   flexible; member, generation and instance (KIP-447)    v4   TRANSACTION_ABORTABLE
v5   transaction version 2: the group's partition is added by this very request (KIP-890)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qanat.api.request_context import RequestContext
from qanat.api.transactions.transaction_errors import abortable_as
from qanat.groups.replies import CommitReply, PartitionOutcome
from qanat.groups.requests import CommitTransactionOffsets, OffsetToCommit
from qanat.model.error_codes import ErrorCode
from qanat.transactions.records import CLASSIC, EPOCH_PER_TRANSACTION
from qanat.wire.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_ABORTABLE_FROM, _ADDS_FROM = 4, 5


def handle(request: TxnOffsetCommitRequest, context: RequestContext) -> object:
    return context.broker.park(_commit(request, context))


async def _commit(request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
    yielder = context.yielder
    offsets = [one async for one in yielder.over(_offsets(request))]
    # In pieces: they become visible together, when the transaction is committed.
    done = [] if offsets else [*await _commit_piece(request, (), context)]
    async for piece in yielder.pieces(offsets):
        done += await _commit_piece(request, piece, context)
    outcomes = iter(done)

    def told() -> ErrorCode:
        return abortable_as(next(outcomes).error, context.version, known_from=_ABORTABLE_FROM)

    topics = [
        TxnOffsetCommitResponseTopic(
            topic.name,
            [
                TxnOffsetCommitResponsePartition(one.partition_index, told())
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


def _offsets(request: TxnOffsetCommitRequest) -> Iterator[OffsetToCommit]:
    for topic in request.topics:
        for one in topic.partitions:
            yield OffsetToCommit(
                topic.name,
                one.partition_index,
                one.committed_offset,
                one.committed_leader_epoch,
                one.committed_metadata,
            )

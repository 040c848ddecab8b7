"""OffsetCommit (8): commit the offsets of a group.

v2   retention time (until v4)    v3   throttle time    v6   leader epochs    v7   static members    v8   flexible
v9   members of the new protocol, and GROUP_ID_NOT_FOUND

Deviation: of more than a few hundred partitions, some may be committed and others refused if the group changes
meanwhile (Kafka refuses a request that does not fit one batch of its log).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qanat.api.groups.authorization import commits_offsets
from qanat.api.groups.offset_rows import offsets_of
from qanat.api.request_context import RequestContext
from qanat.broker.coordinators.group_coordinator import Answer
from qanat.groups.replies import CommitReply, PartitionOutcome, Reply
from qanat.groups.requests import CommitOffsets, OffsetToCommit
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_NOT_FOUND_FROM = 9
_EPOCHS_FROM = 9


def authorize(request: OffsetCommitRequest, access: AccessCheck) -> Verdict:
    """READ on the group and on each topic."""
    may_read = access.may_group(Operation.READ, request.group_id)

    def refused(topic: OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic:
        rows = [OffsetCommitResponsePartition(row.partition_index, code) for row in topic.partitions]
        return OffsetCommitResponseTopic(topic.name, topic.topic_id, rows)

    code = ErrorCode.NONE if may_read else ErrorCode.GROUP_AUTHORIZATION_FAILED
    return commits_offsets(request, access, code, refused, OffsetCommitResponse)


def handle(request: OffsetCommitRequest, context: RequestContext) -> object:
    return context.broker.park(_commit(request, context))


async def _commit(request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    offsets = [one async for one in context.yielder.over(offsets_of(request))]
    if offsets:
        begun = [await _begin(request, piece, context) async for piece in context.yielder.pieces(offsets)]
    else:
        begun = [await _begin(request, (), context)]
    outcomes = iter([one for answer in begun for one in _outcomes(await answer)])
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                OffsetCommitResponsePartition(one.partition_index, next(outcomes).error)
                async for one in context.yielder.over(topic.partitions)
            ],
        )
        async for topic in context.yielder.over(request.topics)
    ]
    return OffsetCommitResponse(topics=topics)


async def _begin(request: OffsetCommitRequest, offsets: Sequence[OffsetToCommit], context: RequestContext) -> Answer:
    """Start to commit a piece; the pieces become durable together."""
    asked = CommitOffsets(
        group_id=request.group_id,
        offsets=tuple(offsets),
        member_id=request.member_id,
        generation_id=request.generation_id_or_member_epoch,
        instance_id=request.group_instance_id,
        retention_ms=request.retention_time_ms,
        knows_group_id_not_found=context.version >= _NOT_FOUND_FROM,
        knows_member_epochs=context.version >= _EPOCHS_FROM,
    )
    return await context.broker.groups.begin(request.group_id, asked)


def _outcomes(reply: Reply) -> tuple[PartitionOutcome, ...]:
    assert isinstance(reply, CommitReply)
    return reply.partitions

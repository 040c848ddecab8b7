"""OffsetCommit (8): remember how far a group has read.

v2   retention time (until v4)    v3   throttle time    v6   leader epochs    v7   static members    v8   flexible
v9   members of the new protocol, and GROUP_ID_NOT_FOUND
"""

from __future__ import annotations

from collections.abc import Iterator

from qanat.groups.replies import CommitReply
from qanat.groups.requests import CommitOffsets, OffsetToCommit
from qanat.servers.kafka.dispatch import Context
from qanat.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_NOT_FOUND_FROM = 9


def handle(request: OffsetCommitRequest, context: Context) -> object:
    return context.broker.park(_commit(request, context))


async def _commit(request: OffsetCommitRequest, context: Context) -> OffsetCommitResponse:
    asked = CommitOffsets(
        group_id=request.group_id,
        offsets=tuple(_offsets(request)),
        member_id=request.member_id,
        generation_id=request.generation_id_or_member_epoch,
        instance_id=request.group_instance_id,
        retention_ms=request.retention_time_ms,
        knows_group_id_not_found=context.version >= _NOT_FOUND_FROM,
    )
    reply = await context.broker.groups.ask(request.group_id, asked)
    assert isinstance(reply, CommitReply)
    outcomes = iter(reply.partitions)
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                OffsetCommitResponsePartition(one.partition_index, next(outcomes).error) for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetCommitResponse(topics=topics)


def _offsets(request: OffsetCommitRequest) -> Iterator[OffsetToCommit]:
    for topic in request.topics:
        for one in topic.partitions:
            yield OffsetToCommit(
                topic.name,
                one.partition_index,
                one.committed_offset,
                one.committed_leader_epoch,
                one.committed_metadata,
            )

"""OffsetFetch (9): how far groups have read.

v2   null asks for all partitions; one error for the whole answer    v3   throttle time    v5   leader epochs
v6   flexible    v7   only positions that no open transaction may change    v8   several groups
v9   members of the new protocol

Version 1 has no place for an error of the whole: every partition carries it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from qanat.api.request_context import RequestContext
from qanat.broker.runtime.cooperative_yield import FEW_ROWS
from qanat.groups.replies import FetchedOffset, FetchReply
from qanat.groups.requests import FetchOffsets
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_ERROR_FROM = 2
_MANY_FROM = 8

Topics = Sequence[OffsetFetchRequestTopic | OffsetFetchRequestTopics] | None


def handle(request: OffsetFetchRequest, context: RequestContext) -> object:
    many = context.version >= _MANY_FROM
    return context.broker.park(_fetch_many(request, context) if many else _fetch_one(request, context))


async def _ask(access: FetchOffsets, topics: Topics, context: RequestContext) -> FetchReply:
    """Where `access` wants to read; it says who it is, and not yet which partitions."""
    if topics is None:
        reply = await _ask_shard(access, context)
        return reply if not reply.unread else await _ask_in_pieces(access, reply.unread, context)
    yielder = context.yielder
    partitions = [
        TopicPartition(topic.name, number)
        async for topic in yielder.over(topics)
        async for number in yielder.over(topic.partition_indexes)
    ]
    return await _ask_in_pieces(access, partitions, context)


async def _ask_in_pieces(
    access: FetchOffsets, partitions: Sequence[TopicPartition], context: RequestContext
) -> FetchReply:
    """Each partition's offset as it is when its piece is asked for: they do not depend on each other."""
    if len(partitions) <= FEW_ROWS:
        return await _ask_shard(replace(access, partitions=tuple(partitions)), context)
    offsets: list[FetchedOffset] = []
    async for piece in context.yielder.pieces(partitions):
        reply = await _ask_shard(replace(access, partitions=tuple(piece)), context)
        if reply.error:
            return reply
        offsets += reply.offsets
    return FetchReply(access.group_id, offsets=tuple(offsets))


async def _ask_shard(asked: FetchOffsets, context: RequestContext) -> FetchReply:
    reply = await context.broker.groups.ask(asked.group_id, asked)
    assert isinstance(reply, FetchReply)
    return reply


async def _fetch_one(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    access = FetchOffsets(request.group_id, require_stable=request.require_stable)
    reply = await _ask(access, request.topics, context)
    offsets = reply.offsets
    if reply.error and context.version < _ERROR_FROM:
        offsets = tuple(
            FetchedOffset(topic.name, number, error=reply.error)
            for topic in request.topics or []
            for number in topic.partition_indexes
        )
    topics = [
        OffsetFetchResponseTopic(
            name, [OffsetFetchResponsePartition(*_fields(one)) async for one in context.yielder.over(found)]
        )
        for name, found in (await _by_topic(offsets, context)).items()
    ]
    return OffsetFetchResponse(topics=topics, error_code=reply.error)


async def _fetch_many(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        groups=[await _group(group, request, context) async for group in context.yielder.over(request.groups)]
    )


async def _group(
    group: OffsetFetchRequestGroup, request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponseGroup:
    access = FetchOffsets(group.group_id, None, request.require_stable, group.member_id, group.member_epoch)
    reply = await _ask(access, group.topics, context)
    if reply.error:
        return OffsetFetchResponseGroup(group.group_id, [], reply.error)
    topics = [
        OffsetFetchResponseTopics(
            name=name,
            partitions=[OffsetFetchResponsePartitions(*_fields(one)) async for one in context.yielder.over(found)],
        )
        for name, found in (await _by_topic(reply.offsets, context)).items()
    ]
    return OffsetFetchResponseGroup(group.group_id, topics)


def _fields(one: FetchedOffset) -> tuple[int, int, int, str, ErrorCode]:
    return one.partition, one.offset, one.leader_epoch, one.metadata, one.error


async def _by_topic(offsets: tuple[FetchedOffset, ...], context: RequestContext) -> dict[str, list[FetchedOffset]]:
    topics: dict[str, list[FetchedOffset]] = {}
    async for one in context.yielder.over(offsets):
        topics.setdefault(one.topic, []).append(one)
    return topics

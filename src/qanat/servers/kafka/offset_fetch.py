"""OffsetFetch (9): how far groups have read.

v2   null asks for all partitions; one error for the whole answer    v3   throttle time    v5   leader epochs
v6   flexible    v7   only positions that no open transaction may change    v8   several groups
v9   members of the new protocol

Version 1 has no place for an error of the whole: every partition carries it.
"""

from __future__ import annotations

from qanat.groups.replies import FetchedOffset, FetchReply
from qanat.groups.requests import FetchOffsets
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.servers.kafka.acts import in_turns
from qanat.servers.kafka.dispatch import Context
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

Topics = list[OffsetFetchRequestTopic] | list[OffsetFetchRequestTopics] | None


def handle(request: OffsetFetchRequest, context: Context) -> object:
    many = context.version >= _MANY_FROM
    return context.broker.park(_fetch_many(request, context) if many else _fetch_one(request, context))


async def _ask(group_id: str, topics: Topics, request: OffsetFetchRequest, context: Context) -> FetchReply:
    partitions = None
    if topics is not None:
        partitions = tuple(TopicPartition(topic.name, number) for topic in topics for number in topic.partition_indexes)
    asked = FetchOffsets(group_id, partitions, require_stable=request.require_stable)
    reply = await context.broker.groups.ask(group_id, asked)
    assert isinstance(reply, FetchReply)
    return reply


async def _fetch_one(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    reply = await _ask(request.group_id, request.topics, request, context)
    offsets = reply.offsets
    if reply.error and context.version < _ERROR_FROM:
        offsets = tuple(
            FetchedOffset(topic.name, number, error=reply.error)
            for topic in request.topics or []
            for number in topic.partition_indexes
        )
    topics = [
        OffsetFetchResponseTopic(name, [OffsetFetchResponsePartition(*_fields(one)) for one in found])
        for name, found in _by_topic(offsets).items()
    ]
    return OffsetFetchResponse(topics=topics, error_code=reply.error)


async def _fetch_many(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        groups=[await _group(group, request, context) async for group in in_turns(request.groups)]
    )


async def _group(
    group: OffsetFetchRequestGroup, request: OffsetFetchRequest, context: Context
) -> OffsetFetchResponseGroup:
    reply = await _ask(group.group_id, group.topics, request, context)
    if reply.error:
        return OffsetFetchResponseGroup(group.group_id, [], reply.error)
    topics = [
        OffsetFetchResponseTopics(name=name, partitions=[OffsetFetchResponsePartitions(*_fields(one)) for one in found])
        for name, found in _by_topic(reply.offsets).items()
    ]
    return OffsetFetchResponseGroup(group.group_id, topics)


def _fields(one: FetchedOffset) -> tuple[int, int, int, str, ErrorCode]:
    return one.partition, one.offset, one.leader_epoch, one.metadata, one.error


def _by_topic(offsets: tuple[FetchedOffset, ...]) -> dict[str, list[FetchedOffset]]:
    topics: dict[str, list[FetchedOffset]] = {}
    for one in offsets:
        topics.setdefault(one.topic, []).append(one)
    return topics

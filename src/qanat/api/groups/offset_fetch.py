"""OffsetFetch (9): the committed offsets of groups.

v2   null requests all partitions; one error for the whole answer    v3   throttle time    v5   leader epochs
v6   flexible    v7   only offsets that no open transaction may change    v8   several groups
v9   members of the new protocol

Version 1 has no place for an error of the whole answer: every partition carries it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from qanat.api.request_context import RequestContext
from qanat.broker.runtime.cooperative_yield import FEW_ROWS
from qanat.groups.replies import FetchedOffset, FetchReply
from qanat.groups.requests import FetchOffsets
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.security.authorization import Operation
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

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_ERROR_FROM = 2
_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_MANY_FROM = 8

Topics = Sequence[OffsetFetchRequestTopic | OffsetFetchRequestTopics] | None


def authorize(request: OffsetFetchRequest, access: AccessCheck) -> Verdict:
    """DESCRIBE on each group and on each topic; of all topics, only those are shown."""
    return _authorize_many(request, access) if access.version >= _MANY_FROM else _authorize_one(request, access)


def _authorize_one(request: OffsetFetchRequest, access: AccessCheck) -> Verdict:
    if not access.may_group(Operation.DESCRIBE, request.group_id):
        topics = [_denied(topic, _DENIED) for topic in request.topics or ()] if access.version < _ERROR_FROM else []
        return access.deny(OffsetFetchResponse(topics=topics, error_code=_DENIED))
    is_all, denied = request.topics is None, list[OffsetFetchRequestTopic]()
    if request.topics is not None:
        request.topics, denied = access.split(
            request.topics, lambda topic: access.may_topic(Operation.DESCRIBE, topic.name)
        )

    def complete(response: OffsetFetchResponse) -> OffsetFetchResponse:
        if is_all:
            response.topics = [one for one in response.topics if access.may_topic(Operation.DESCRIBE, one.name)]
        response.topics += [_denied(topic, _TOPIC_DENIED) for topic in denied]
        return response

    return access.grant(complete)


def _denied(topic: OffsetFetchRequestTopic, code: ErrorCode) -> OffsetFetchResponseTopic:
    rows = [OffsetFetchResponsePartition(number, -1, -1, "", code) for number in topic.partition_indexes]
    return OffsetFetchResponseTopic(topic.name, rows)


def _authorize_many(request: OffsetFetchRequest, access: AccessCheck) -> Verdict:
    request.groups, hidden = access.split(
        request.groups, lambda group: access.may_group(Operation.DESCRIBE, group.group_id)
    )
    denied: dict[str, list[OffsetFetchRequestTopics]] = {}
    for group in request.groups:
        if group.topics is not None:
            group.topics, denied[group.group_id] = access.split(
                group.topics, lambda topic: access.may_topic(Operation.DESCRIBE, topic.name)
            )

    def complete(response: OffsetFetchResponse) -> OffsetFetchResponse:
        for group in response.groups:
            if group.error_code:
                continue
            if group.group_id not in denied:
                group.topics = [one for one in group.topics if access.may_topic(Operation.DESCRIBE, one.name)]
            group.topics += [_denied_of_many(topic) for topic in denied.get(group.group_id, ())]
        response.groups += [OffsetFetchResponseGroup(group.group_id, [], _DENIED) for group in hidden]
        return response

    return access.grant(complete)


def _denied_of_many(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    rows = [OffsetFetchResponsePartitions(number, -1, -1, "", _TOPIC_DENIED) for number in topic.partition_indexes]
    return OffsetFetchResponseTopics(topic.name, topic.topic_id, rows)


def handle(request: OffsetFetchRequest, context: RequestContext) -> object:
    many = context.version >= _MANY_FROM
    return context.broker.park(_fetch_many(request, context) if many else _fetch_one(request, context))


async def _ask(group: FetchOffsets, topics: Topics, context: RequestContext) -> FetchReply:
    """The offsets of a group in these topics; `group` does not name the partitions yet."""
    if topics is None:
        reply = await _ask_shard(group, context)
        return reply if not reply.unread else await _ask_in_pieces(group, reply.unread, context)
    yielder = context.yielder
    partitions = [
        TopicPartition(topic.name, number)
        async for topic in yielder.over(topics)
        async for number in yielder.over(topic.partition_indexes)
    ]
    return await _ask_in_pieces(group, partitions, context)


async def _ask_in_pieces(
    group: FetchOffsets, partitions: Sequence[TopicPartition], context: RequestContext
) -> FetchReply:
    """Each offset as of the time of its piece: partitions do not depend on each other."""
    if len(partitions) <= FEW_ROWS:
        return await _ask_shard(replace(group, partitions=tuple(partitions)), context)
    offsets: list[FetchedOffset] = []
    async for piece in context.yielder.pieces(partitions):
        reply = await _ask_shard(replace(group, partitions=tuple(piece)), context)
        if reply.error:
            return reply
        offsets += reply.offsets
    return FetchReply(group.group_id, offsets=tuple(offsets))


async def _ask_shard(asked: FetchOffsets, context: RequestContext) -> FetchReply:
    reply = await context.broker.groups.ask(asked.group_id, asked)
    assert isinstance(reply, FetchReply)
    return reply


async def _fetch_one(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    group = FetchOffsets(request.group_id, require_stable=request.require_stable)
    reply = await _ask(group, request.topics, context)
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
    asked = FetchOffsets(group.group_id, None, request.require_stable, group.member_id, group.member_epoch)
    reply = await _ask(asked, group.topics, context)
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

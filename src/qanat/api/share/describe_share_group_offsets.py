"""DescribeShareGroupOffsets (90): the start offsets and lag of share groups (KIP-932).

v0   start offsets    v1   lag (KIP-1226)

Named partitions, or all of which the group has a state. A group that does not exist, or has never read a partition, has
the start offset -1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.broker.share.administration import ShareProgress
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.wire.kafka.layouts import ZERO_UUID
from qanat.wire.kafka.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: DescribeShareGroupOffsetsRequest, access: AccessCheck) -> Verdict:
    """DESCRIBE on each group and on each topic; of all topics, only those are shown."""
    request.groups, denied = access.split(
        request.groups, lambda group: access.may_group(Operation.DESCRIBE, group.group_id)
    )
    hidden: dict[str, list[DescribeShareGroupOffsetsRequestTopic]] = {}
    for group in request.groups:
        if group.topics is not None:
            group.topics, hidden[group.group_id] = access.split(
                group.topics, lambda topic: access.may_topic(Operation.DESCRIBE, topic.topic_name)
            )

    def complete(response: DescribeShareGroupOffsetsResponse) -> DescribeShareGroupOffsetsResponse:
        for group in response.groups:
            group.topics = [one for one in group.topics if access.may_topic(Operation.DESCRIBE, one.topic_name)]
            group.topics += [_denied(topic) for topic in hidden.get(group.group_id, ())]
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        response.groups += [DescribeShareGroupOffsetsResponseGroup(group.group_id, [], code) for group in denied]
        return response

    return access.grant(complete)


def _denied(topic: DescribeShareGroupOffsetsRequestTopic) -> DescribeShareGroupOffsetsResponseTopic:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    rows = [DescribeShareGroupOffsetsResponsePartition(number, -1, error_code=code) for number in topic.partitions]
    return DescribeShareGroupOffsetsResponseTopic(topic.topic_name, partitions=rows)


def handle(request: DescribeShareGroupOffsetsRequest, context: RequestContext) -> object:
    return context.broker.park(_describe(request, context))


async def _describe(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(
        groups=[await _group(group, context) async for group in context.yielder.over(request.groups)]
    )


async def _group(
    group: DescribeShareGroupOffsetsRequestGroup, context: RequestContext
) -> DescribeShareGroupOffsetsResponseGroup:
    if not group.group_id:
        text = "The group's id must not be empty."
        return DescribeShareGroupOffsetsResponseGroup("", [], ErrorCode.INVALID_GROUP_ID, text)
    if group.topics is None:
        known = await context.broker.share_administration.topics(group.group_id)
        if known.error not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
            return DescribeShareGroupOffsetsResponseGroup(group.group_id, [], known.error)
        wanted = [(one.name, list(one.partitions)) for one in known.topics]
    else:
        wanted = [(one.topic_name, one.partitions) for one in group.topics]
    rows = [await _topic(group.group_id, *one, context) async for one in context.yielder.over(wanted)]
    return DescribeShareGroupOffsetsResponseGroup(group.group_id, rows)


async def _topic(
    group_id: str, topic: str, partitions: list[int], context: RequestContext
) -> DescribeShareGroupOffsetsResponseTopic:
    known = context.broker.metadata.image.topics.get(topic)
    found = await context.broker.share_administration.progress(group_id, topic, partitions)
    return DescribeShareGroupOffsetsResponseTopic(
        topic, ZERO_UUID if known is None else known.identity.value.bytes, [_partition(one) for one in found]
    )


def _partition(one: ShareProgress) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        one.partition, one.start_offset, one.leader_epoch, one.lag, one.error
    )

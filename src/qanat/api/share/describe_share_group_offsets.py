"""DescribeShareGroupOffsets (90): how far share groups are (KIP-932).

v0   start offsets    v1   lag (KIP-1226)

Named partitions, or all of which a group keeps a state. A group that has never read a partition, or is not there, is
nowhere: its start offset is -1.
"""

from __future__ import annotations

from qanat.api.request_context import RequestContext
from qanat.broker.share.administration import ShareProgress
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.layouts import ZERO_UUID
from qanat.wire.kafka.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)


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

"""AlterShareGroupOffsets (91): set the start offsets of a share group without members (KIP-932).

v0   the only one

An unknown group is created, without members: offsets can be set before the first consumer joins.

Deviation: an offset outside the log is refused. Kafka 4.1.0 answers without rows and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.api.share.offset_changes import changes_offsets, refused_change
from qanat.broker.share.administration import Moved
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.wire.kafka.layouts import ZERO_UUID
from qanat.wire.kafka.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: AlterShareGroupOffsetsRequest, access: AccessCheck) -> Verdict:
    """READ on the group and on each topic."""
    return changes_offsets(request, Operation.READ, access, AlterShareGroupOffsetsResponse, _denied)


def _denied(topic: AlterShareGroupOffsetsRequestTopic) -> AlterShareGroupOffsetsResponseTopic:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    rows = [AlterShareGroupOffsetsResponsePartition(row.partition_index, code) for row in topic.partitions]
    return AlterShareGroupOffsetsResponseTopic(topic.topic_name, partitions=rows)


def handle(request: AlterShareGroupOffsetsRequest, context: RequestContext) -> object:
    return context.broker.park(_alter(request, context))


async def _alter(request: AlterShareGroupOffsetsRequest, context: RequestContext) -> AlterShareGroupOffsetsResponse:
    refused = await refused_change(request.group_id, context, AlterShareGroupOffsetsResponse, may_be_new=True)
    if refused is not None:
        return refused
    return AlterShareGroupOffsetsResponse(
        responses=[await _topic(request.group_id, one, context) async for one in context.yielder.over(request.topics)]
    )


async def _topic(
    group_id: str, topic: AlterShareGroupOffsetsRequestTopic, context: RequestContext
) -> AlterShareGroupOffsetsResponseTopic:
    known = context.broker.metadata.image.topics.get(topic.topic_name)
    offsets = {row.partition_index: row.start_offset for row in topic.partitions}
    moved = await context.broker.share_administration.move(group_id, topic.topic_name, offsets)
    topic_id = ZERO_UUID if known is None else known.identity.value.bytes
    return AlterShareGroupOffsetsResponseTopic(topic.topic_name, topic_id, [_partition(one) for one in moved])


def _partition(one: Moved) -> AlterShareGroupOffsetsResponsePartition:
    return AlterShareGroupOffsetsResponsePartition(one.partition, one.error, one.message)

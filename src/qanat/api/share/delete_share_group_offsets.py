"""DeleteShareGroupOffsets (92): delete the offsets of a share group without members, as if it never read the topics.

v0   the only one
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.api.share.offset_changes import changes_offsets, refused_change
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: DeleteShareGroupOffsetsRequest, access: AccessCheck) -> Verdict:
    """DELETE on the group, READ on each topic."""
    return changes_offsets(request, Operation.DELETE, access, DeleteShareGroupOffsetsResponse, _denied)


def _denied(topic: DeleteShareGroupOffsetsRequestTopic) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(topic.topic_name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def handle(request: DeleteShareGroupOffsetsRequest, context: RequestContext) -> object:
    return context.broker.park(_delete(request, context))


async def _delete(request: DeleteShareGroupOffsetsRequest, context: RequestContext) -> DeleteShareGroupOffsetsResponse:
    refused = await refused_change(request.group_id, context, DeleteShareGroupOffsetsResponse)
    if refused is not None:
        return refused
    names = dict.fromkeys(one.topic_name for one in request.topics)
    return DeleteShareGroupOffsetsResponse(
        responses=[await _delete_topic(request.group_id, name, context) async for name in context.yielder.over(names)]
    )


async def _delete_topic(group_id: str, topic: str, context: RequestContext) -> DeleteShareGroupOffsetsResponseTopic:
    administration = context.broker.share_administration
    known = [one for one in (await administration.topics(group_id)).topics if one.name == topic]
    if not known:
        text = f"Group {group_id} has no offsets in a topic {topic}."
        return DeleteShareGroupOffsetsResponseTopic(
            topic, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=text
        )
    error = await administration.forget(group_id, known)
    return DeleteShareGroupOffsetsResponseTopic(topic, known[-1].topic_id, error)

"""DeleteShareGroupOffsets (92): let a share group without members forget topics, as if it had never read them.

v0   the only one
"""

from __future__ import annotations

from qanat.api.request_context import RequestContext
from qanat.api.share.alter_share_group_offsets import refusal, told
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)


def handle(request: DeleteShareGroupOffsetsRequest, context: RequestContext) -> object:
    return context.broker.park(_delete(request, context))


async def _delete(request: DeleteShareGroupOffsetsRequest, context: RequestContext) -> DeleteShareGroupOffsetsResponse:
    error = await refusal(request.group_id, context)
    if error is not ErrorCode.NONE:
        return DeleteShareGroupOffsetsResponse(error_code=error, error_message=told(error, request.group_id))
    names = dict.fromkeys(one.topic_name for one in request.topics)
    return DeleteShareGroupOffsetsResponse(
        responses=[await _forget(request.group_id, name, context) async for name in context.yielder.over(names)]
    )


async def _forget(group_id: str, topic: str, context: RequestContext) -> DeleteShareGroupOffsetsResponseTopic:
    administration = context.broker.share_administration
    known = [one for one in (await administration.topics(group_id)).topics if one.name == topic]
    if not known:
        text = f"Group {group_id} has no offsets in a topic {topic}."
        return DeleteShareGroupOffsetsResponseTopic(
            topic, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=text
        )
    error = await administration.forget(group_id, known)
    return DeleteShareGroupOffsetsResponseTopic(topic, known[-1].topic_id, error)

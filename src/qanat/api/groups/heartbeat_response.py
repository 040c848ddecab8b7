"""The response to a heartbeat of a consumer or share group: the member's epoch and assignment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from qanat.api.request_context import RequestContext
from qanat.groups.replies import AssignmentReply
from qanat.groups.requests import ConsumerHeartbeat, ShareHeartbeat

Response = TypeVar("Response")


async def beat(
    request: ConsumerHeartbeat | ShareHeartbeat,
    context: RequestContext,
    response: Callable[..., Response],
    assignment: Callable[[list[Any]], Any],
    row: Callable[[bytes, list[int]], Any],
) -> Response:
    """The coordinator's reply as a `response`, whose `assignment` has a `row` for each topic."""
    reply = await context.broker.groups.ask(request.group_id, request)
    assert isinstance(reply, AssignmentReply)
    assigned = None
    if reply.assignment is not None:
        topics: dict[bytes, list[int]] = {}
        async for at in context.yielder.over(reply.assignment):
            topics.setdefault(at.topic_id, []).append(at.partition)
        assigned = assignment([row(topic_id, numbers) for topic_id, numbers in topics.items()])
    return response(
        error_code=reply.error,
        error_message=reply.message,
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=assigned,
    )

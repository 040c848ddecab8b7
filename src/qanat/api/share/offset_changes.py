"""Changes of a share group's offsets: who may, and why a group as a whole is refused.

For AlterShareGroupOffsets and DeleteShareGroupOffsets, which differ in their rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from qanat.api.request_context import RequestContext
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_MESSAGES = {
    ErrorCode.GROUP_ID_NOT_FOUND: "Group {} is not a share group.",
    ErrorCode.NON_EMPTY_GROUP: "Group {} has members; stop them first.",
    ErrorCode.INVALID_GROUP_ID: "The group's id must not be empty.",
}


class _Topic(Protocol):
    topic_name: str


Topic = TypeVar("Topic", bound=_Topic)
Response = TypeVar("Response")


class _Request(Protocol[Topic]):
    group_id: str
    topics: list[Topic]


def changes_offsets(
    request: _Request[Topic],
    operation: Operation,
    access: AccessCheck,
    response: type[Any],
    refused: Callable[[Topic], Any],
) -> Verdict:
    """The operation on the group, READ on each topic."""
    if not access.may_group(operation, request.group_id):
        return access.deny(response(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    request.topics, denied = access.split(
        request.topics, lambda topic: access.may_topic(Operation.READ, topic.topic_name)
    )
    if denied and not request.topics:
        return access.deny(response(error_message=None, responses=[refused(topic) for topic in denied]))
    return access.grant_without(denied, lambda made: made.responses, refused, unless_error=True)


async def refused_change(
    group_id: str, context: RequestContext, response: Callable[..., Response], *, may_be_new: bool = False
) -> Response | None:
    """The response where the group is no share group or has members; None where its offsets can change."""
    error = ErrorCode.INVALID_GROUP_ID
    if group_id:
        administration = context.broker.share_administration
        error = (await administration.topics(group_id, must_be_empty=True, may_be_new=may_be_new)).error
    if error is ErrorCode.NONE:
        return None
    message = _MESSAGES[error].format(group_id) if error in _MESSAGES else None
    return response(error_code=error, error_message=message)

"""Errors of requests that change a share group's offsets: it is no share group, or it has members."""

from __future__ import annotations

from qanat.api.request_context import RequestContext
from qanat.model.error_codes import ErrorCode

_MESSAGES = {
    ErrorCode.GROUP_ID_NOT_FOUND: "Group {} is not a share group.",
    ErrorCode.NON_EMPTY_GROUP: "Group {} has members; stop them first.",
    ErrorCode.INVALID_GROUP_ID: "The group's id must not be empty.",
}


async def group_error(group_id: str, context: RequestContext, *, may_be_new: bool = False) -> ErrorCode:
    """Why the offsets of a group cannot change; NONE where they can."""
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    found = await context.broker.share_administration.topics(group_id, must_be_empty=True, may_be_new=may_be_new)
    return found.error


def message_of(error: ErrorCode, group_id: str) -> str | None:
    return _MESSAGES[error].format(group_id) if error in _MESSAGES else None

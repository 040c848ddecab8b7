"""Authorization rules that the group APIs share: to be a member of a group, and to commit offsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from qanat.api.authorization import GRANTED, AccessCheck, Denied, Verdict, grant_without, split_allowed
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation


class _Topic(Protocol):
    name: str


Topic = TypeVar("Topic", bound=_Topic)


class _Commit(Protocol[Topic]):
    topics: list[Topic]


def reads_group(group_id: str, access: AccessCheck, response: type[Any]) -> Verdict:
    """READ on the group, or the whole request is refused."""
    if access.may_group(Operation.READ, group_id):
        return GRANTED
    return Denied(response(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))


def joins_group(group_id: str, topics: Sequence[str] | None, access: AccessCheck, response: type[Any]) -> Verdict:
    """READ on the group and DESCRIBE on the named topics, or the whole heartbeat is refused."""
    if not access.may_group(Operation.READ, group_id):
        return Denied(response(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not all(access.may_topic(Operation.DESCRIBE, name) for name in topics or ()):
        return Denied(response(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return GRANTED


def commits_offsets(
    request: _Commit[Topic],
    access: AccessCheck,
    code: ErrorCode,
    refused: Callable[[Topic, ErrorCode], Any],
    response: type[Any],
) -> Verdict:
    """READ on each topic. `code` refuses all of them; the handler is not called where no topic is left."""
    allowed, denied = split_allowed(request.topics, lambda topic: access.may_topic(Operation.READ, topic.name))
    if code:
        allowed, denied = [], request.topics
    if not denied:
        return GRANTED
    code = code or ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if not allowed:
        return Denied(response(topics=[refused(topic, code) for topic in denied]))
    request.topics = allowed
    return grant_without(denied, lambda made: made.topics, lambda topic: refused(topic, code))

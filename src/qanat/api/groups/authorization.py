"""Authorization rules that the group APIs share: to be a member of a group, and to commit offsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


class _Topic(Protocol):
    name: str


Topic = TypeVar("Topic", bound=_Topic)


class _Commit(Protocol[Topic]):
    topics: list[Topic]


def reads_group(group_id: str, access: AccessCheck, response: Callable[..., Any]) -> Verdict:
    """READ on the group, or the whole request is refused."""
    if access.may_group(Operation.READ, group_id):
        return access.grant()
    return access.deny(response(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))


def joins_group(group_id: str, topics: Sequence[str] | None, access: AccessCheck, response: type[Any]) -> Verdict:
    """READ on the group and DESCRIBE on the named topics, or the whole heartbeat is refused."""
    if not access.may_group(Operation.READ, group_id):
        return access.deny(response(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not all(access.may_topic(Operation.DESCRIBE, name) for name in topics or ()):
        return access.deny(response(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return access.grant()


def commits_offsets(
    request: _Commit[Topic],
    access: AccessCheck,
    code: ErrorCode,
    refused: Callable[[Topic, ErrorCode], Any],
    response: type[Any],
) -> Verdict:
    """READ on each topic. `code` refuses all of them; the handler is not called where no topic is left."""
    allowed, denied = access.split(request.topics, lambda topic: access.may_topic(Operation.READ, topic.name))
    if code:
        allowed, denied = [], request.topics
    if not denied:
        return access.grant()
    code = code or ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if not allowed:
        return access.deny(response(topics=[refused(topic, code) for topic in denied]))
    request.topics = allowed
    return access.grant_without(denied, lambda made: made.topics, lambda topic: refused(topic, code))

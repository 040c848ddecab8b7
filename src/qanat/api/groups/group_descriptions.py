"""Descriptions of groups of all three kinds: classic, consumer and share groups.

DescribeGroups, ConsumerGroupDescribe and ShareGroupDescribe differ in their rows; which groups they describe, what a
caller may see of them and how an unknown one is answered is the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from qanat.api.allowed_operations import ON_GROUPS
from qanat.api.request_context import RequestContext
from qanat.groups.replies import ConsumerDescribeReply, NamedPartitions, ShareDescribeReply
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


class _Described(Protocol):
    """A group's row in the response."""

    error_code: int
    group_id: str
    authorized_operations: int


class _Describe(Protocol):
    """A request to describe consumer or share groups."""

    group_ids: list[str]
    include_authorized_operations: bool


class _Reply(Protocol):
    @property
    def error(self) -> ErrorCode: ...


Described = TypeVar("Described", bound=_Described)
Reply = TypeVar("Reply", bound=_Reply)
EpochReply = TypeVar("EpochReply", ConsumerDescribeReply, ShareDescribeReply)


async def describe_each(
    group_ids: Iterable[str],
    ask: Callable[[str], Awaitable[Reply]],
    describe: Callable[[Reply], Awaitable[Described]],
    context: RequestContext,
    *,
    with_operations: bool,
) -> list[Described]:
    """The row of every group, each once."""
    groups: list[Described] = []
    async for group_id in context.yielder.over(dict.fromkeys(group_ids)):
        reply = await ask(group_id)
        group = await describe(reply)
        if with_operations and not reply.error:
            group.authorized_operations = ON_GROUPS
        groups.append(group)
    return groups


async def describe_with_epochs(
    request: _Describe,
    ask: Callable[[str], Awaitable[EpochReply]],
    row: Callable[..., Described],
    member: Callable[[Any], Any],
    kind: str,
    context: RequestContext,
) -> list[Described]:
    """The same for consumer and share groups, whose members and assignments have epochs."""

    async def describe(reply: EpochReply) -> Described:
        is_missing = reply.error is ErrorCode.GROUP_ID_NOT_FOUND
        return row(
            error_code=reply.error,
            error_message=f"Group {reply.group_id} is not a {kind} group." if is_missing else None,
            group_id=reply.group_id,
            group_state=reply.state,
            group_epoch=reply.epoch,
            assignment_epoch=reply.target_epoch,
            assignor_name=reply.assignor,
            members=[member(one) async for one in context.yielder.over(reply.members)],
        )

    with_operations = request.include_authorized_operations
    return await describe_each(request.group_ids, ask, describe, context, with_operations=with_operations)


def assignment_rows(row: Callable[..., Any], partitions: Iterable[NamedPartitions]) -> list[Any]:
    """A member's partitions, a row for each topic."""
    return [row(one.topic_id, one.topic, list(one.partitions)) for one in partitions]


def authorize_descriptions(
    group_ids: list[str],
    access: AccessCheck,
    row: Callable[[ErrorCode, str | None, str], Described],
    *,
    with_operations: bool,
    topics_of: Callable[[Described], Iterable[str]] | None = None,
) -> tuple[list[str], Verdict]:
    """DESCRIBE on each group: the groups that remain, and the verdict.

    A description shows which topics the members read. Where the caller may not describe one of them, the group is
    refused.
    """
    allowed, denied = access.split(group_ids, lambda group: access.may_group(Operation.DESCRIBE, group))

    def show(group: Described) -> Described:
        topics = dict.fromkeys(topics_of(group)) if topics_of is not None else ()
        if all(access.may_topic(Operation.DESCRIBE, topic) for topic in topics):
            return group
        return row(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, group.group_id)

    def complete(response: Any) -> Any:
        response.groups = [show(group) for group in response.groups]
        if with_operations:
            for group in response.groups:
                if not group.error_code:
                    group.authorized_operations = access.group_operations(group.group_id)
        response.groups += [row(ErrorCode.GROUP_AUTHORIZATION_FAILED, None, group) for group in denied]
        return response

    return allowed, access.grant(complete)

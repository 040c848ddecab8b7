"""ShareGroupDescribe (77): epochs and members of share groups (KIP-932).

v1   the first that Kafka supports
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from qanat.api.groups.group_descriptions import assignment_rows, authorize_descriptions, describe_with_epochs
from qanat.api.request_context import RequestContext
from qanat.groups.replies import DescribedShareMember, ShareDescribeReply
from qanat.groups.requests import DescribeShareGroup
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: ShareGroupDescribeRequest, access: AccessCheck) -> Verdict:
    """DESCRIBE on each group and on every topic that its members subscribe to or are assigned."""
    request.group_ids, verdict = authorize_descriptions(
        request.group_ids,
        access,
        DescribedGroup,
        with_operations=request.include_authorized_operations,
        topics_of=_topics,
    )
    return verdict


def _topics(group: DescribedGroup) -> Iterator[str]:
    for member in group.members:
        yield from member.subscribed_topic_names
        for row in member.assignment.topic_partitions:
            yield row.topic_name


def handle(request: ShareGroupDescribeRequest, context: RequestContext) -> object:
    return context.broker.park(_describe(request, context))


async def _describe(request: ShareGroupDescribeRequest, context: RequestContext) -> ShareGroupDescribeResponse:
    async def ask(group_id: str) -> ShareDescribeReply:
        if not group_id:
            return ShareDescribeReply(group_id, ErrorCode.INVALID_GROUP_ID)
        reply = await context.broker.groups.ask(group_id, DescribeShareGroup(group_id))
        assert isinstance(reply, ShareDescribeReply)
        return reply

    groups = await describe_with_epochs(request, ask, DescribedGroup, _member, "share", context)
    return ShareGroupDescribeResponse(groups=groups)


def _member(one: DescribedShareMember) -> Member:
    return Member(
        member_id=one.member_id,
        rack_id=one.rack_id,
        member_epoch=one.epoch,
        client_id=one.client_id,
        client_host=one.client_host,
        subscribed_topic_names=list(one.topics),
        assignment=Assignment(assignment_rows(TopicPartitions, one.assigned)),
    )

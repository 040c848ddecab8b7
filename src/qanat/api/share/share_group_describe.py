"""ShareGroupDescribe (77): epochs and members of share groups (KIP-932).

v1   the first that Kafka supports
"""

from __future__ import annotations

from qanat.api.allowed_operations import ON_GROUPS
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


def handle(request: ShareGroupDescribeRequest, context: RequestContext) -> object:
    return context.broker.park(_describe(request, context))


async def _describe(request: ShareGroupDescribeRequest, context: RequestContext) -> ShareGroupDescribeResponse:
    groups = []
    async for group_id in context.yielder.over(dict.fromkeys(request.group_ids)):
        reply = ShareDescribeReply(group_id, ErrorCode.INVALID_GROUP_ID)
        if group_id:
            found = await context.broker.groups.ask(group_id, DescribeShareGroup(group_id))
            assert isinstance(found, ShareDescribeReply)
            reply = found
        groups.append(await _described(reply, context))
        if request.include_authorized_operations and not reply.error:
            groups[-1].authorized_operations = ON_GROUPS
    return ShareGroupDescribeResponse(groups=groups)


async def _described(reply: ShareDescribeReply, context: RequestContext) -> DescribedGroup:
    is_missing = reply.error is ErrorCode.GROUP_ID_NOT_FOUND
    return DescribedGroup(
        error_code=reply.error,
        error_message=f"Group {reply.group_id} is not a share group." if is_missing else None,
        group_id=reply.group_id,
        group_state=reply.state,
        group_epoch=reply.epoch,
        assignment_epoch=reply.target_epoch,
        assignor_name=reply.assignor,
        members=[_member(one) async for one in context.yielder.over(reply.members)],
    )


def _member(one: DescribedShareMember) -> Member:
    return Member(
        member_id=one.member_id,
        rack_id=one.rack_id,
        member_epoch=one.epoch,
        client_id=one.client_id,
        client_host=one.client_host,
        subscribed_topic_names=list(one.topics),
        assignment=Assignment([TopicPartitions(row.topic_id, row.topic, list(row.partitions)) for row in one.assigned]),
    )

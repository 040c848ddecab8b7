"""ConsumerGroupDescribe (69): epochs, assignor and members of groups of the new protocol (KIP-848).

v1   whether a member speaks the classic protocol (KIP-1099)
"""

from __future__ import annotations

from collections.abc import Iterable

from qanat.api.allowed_operations import ON_GROUPS
from qanat.api.request_context import RequestContext
from qanat.groups.replies import ConsumerDescribeReply, DescribedConsumer, NamedPartitions
from qanat.groups.requests import DescribeConsumerGroup
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

_CLASSIC, _CONSUMER = 0, 1


def handle(request: ConsumerGroupDescribeRequest, context: RequestContext) -> object:
    return context.broker.park(_describe(request, context))


async def _describe(request: ConsumerGroupDescribeRequest, context: RequestContext) -> ConsumerGroupDescribeResponse:
    groups = []
    async for group_id in context.yielder.over(dict.fromkeys(request.group_ids)):
        reply = await context.broker.groups.ask(group_id, DescribeConsumerGroup(group_id))
        assert isinstance(reply, ConsumerDescribeReply)
        groups.append(await _described(reply, context))
        if request.include_authorized_operations and not reply.error:
            groups[-1].authorized_operations = ON_GROUPS
    return ConsumerGroupDescribeResponse(groups=groups)


async def _described(reply: ConsumerDescribeReply, context: RequestContext) -> DescribedGroup:
    is_missing = reply.error is ErrorCode.GROUP_ID_NOT_FOUND
    return DescribedGroup(
        error_code=reply.error,
        error_message=f"Group {reply.group_id} is not a consumer group." if is_missing else None,
        group_id=reply.group_id,
        group_state=reply.state,
        group_epoch=reply.epoch,
        assignment_epoch=reply.target_epoch,
        assignor_name=reply.assignor,
        members=[_member(one) async for one in context.yielder.over(reply.members)],
    )


def _member(one: DescribedConsumer) -> Member:
    return Member(
        member_id=one.member_id,
        instance_id=one.instance_id,
        rack_id=one.rack_id,
        member_epoch=one.epoch,
        client_id=one.client_id,
        client_host=one.client_host,
        subscribed_topic_names=list(one.topics),
        subscribed_topic_regex=one.expression,
        assignment=_assignment(one.assigned),
        target_assignment=_assignment(one.target),
        member_type=_CLASSIC if one.is_classic else _CONSUMER,
    )


def _assignment(rows: Iterable[NamedPartitions]) -> Assignment:
    return Assignment([TopicPartitions(one.topic_id, one.topic, list(one.partitions)) for one in rows])

"""ConsumerGroupDescribe (69): epochs, assignor and members of groups of the new protocol (KIP-848).

v1   whether a member uses the classic protocol (KIP-1099)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from qanat.api.groups.group_descriptions import assignment_rows, authorize_descriptions, describe_with_epochs
from qanat.api.request_context import RequestContext
from qanat.groups.replies import ConsumerDescribeReply, DescribedConsumer
from qanat.groups.requests import DescribeConsumerGroup
from qanat.wire.kafka.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_CLASSIC, _CONSUMER = 0, 1


def authorize(request: ConsumerGroupDescribeRequest, access: AccessCheck) -> Verdict:
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
        for row in (*member.assignment.topic_partitions, *member.target_assignment.topic_partitions):
            yield row.topic_name


def handle(request: ConsumerGroupDescribeRequest, context: RequestContext) -> object:
    return context.broker.park(_describe(request, context))


async def _describe(request: ConsumerGroupDescribeRequest, context: RequestContext) -> ConsumerGroupDescribeResponse:
    async def ask(group_id: str) -> ConsumerDescribeReply:
        reply = await context.broker.groups.ask(group_id, DescribeConsumerGroup(group_id))
        assert isinstance(reply, ConsumerDescribeReply)
        return reply

    groups = await describe_with_epochs(request, ask, DescribedGroup, _member, "consumer", context)
    return ConsumerGroupDescribeResponse(groups=groups)


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
        assignment=Assignment(assignment_rows(TopicPartitions, one.assigned)),
        target_assignment=Assignment(assignment_rows(TopicPartitions, one.target)),
        member_type=_CLASSIC if one.is_classic else _CONSUMER,
    )

"""ConsumerGroupDescribe, and groups of the new protocol in ListGroups."""

from __future__ import annotations

from qanat.groups.classic.subscription import CONSUMER
from qanat.groups.consumer.group import ConsumerGroup
from qanat.groups.consumer.records import ConsumerMemberRecord, Partitions
from qanat.groups.consumer.target import preferred_assignor
from qanat.groups.decision_builder import DecisionBuilder, TopicView
from qanat.groups.partition_rows import by_topic
from qanat.groups.replies import (
    ConsumerDescribeReply,
    DescribedConsumer,
    ListedGroup,
    NamedPartitions,
)
from qanat.groups.requests import DescribeConsumerGroup
from qanat.model.error_codes import ErrorCode

TYPE = "consumer"
"""The type of these groups in ListGroups."""


def describe(builder: DecisionBuilder, request: DescribeConsumerGroup) -> ConsumerDescribeReply:
    group = builder.state.ledger.consumers.get(request.group_id)
    if group is None:
        return ConsumerDescribeReply(request.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
    topics = builder.state.topics
    return ConsumerDescribeReply(
        group.group_id,
        state=group.state,
        epoch=group.epoch,
        target_epoch=group.target_epoch,
        assignor=preferred_assignor(group, builder.state.assignors),
        members=tuple(_described(group, member, topics) for member in group.members.values()),
    )


def _described(group: ConsumerGroup, member: ConsumerMemberRecord, topics: TopicView) -> DescribedConsumer:
    current = group.current_of(member.member_id)
    return DescribedConsumer(
        member.member_id,
        member.instance_id,
        member.rack_id,
        current.epoch,
        member.client_id,
        member.client_host,
        member.topics,
        member.expression,
        named(current.assigned, topics),
        named(group.target_of(member.member_id), topics),
        member.is_classic,
    )


def named(partitions: Partitions, topics: TopicView) -> tuple[NamedPartitions, ...]:
    """By topic; deleted ones are left out."""
    rows = by_topic(partitions)
    names = ((topic_id, topics.topic_name(topic_id)) for topic_id in rows)
    return tuple(NamedPartitions(topic_id, name, tuple(rows[topic_id])) for topic_id, name in names if name is not None)


def listed(group: ConsumerGroup) -> ListedGroup:
    return ListedGroup(group.group_id, CONSUMER, group.state, TYPE)

"""ShareGroupDescribe, share groups in ListGroups, and the partitions for which a group has a state."""

from __future__ import annotations

from qanat.groups.consumer.view import named
from qanat.groups.decision_builder import DecisionBuilder, TopicView
from qanat.groups.replies import (
    DescribedShareMember,
    ListedGroup,
    ShareDescribeReply,
    SharedTopicsReply,
)
from qanat.groups.requests import ChangeSharedTopics, DescribeShareGroup, ListSharedTopics
from qanat.groups.share.group import ShareGroup
from qanat.groups.share.records import ShareMemberRecord
from qanat.groups.share.requirements import is_taken
from qanat.groups.share.subscriptions import change_topics
from qanat.groups.share.target import ASSIGNOR
from qanat.model.error_codes import ErrorCode

TYPE = "share"
"""The type of these groups in ListGroups, and their protocol."""


def describe(builder: DecisionBuilder, request: DescribeShareGroup) -> ShareDescribeReply:
    group = builder.state.ledger.shares.get(request.group_id)
    if group is None:
        return ShareDescribeReply(request.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
    topics = builder.state.topics
    return ShareDescribeReply(
        group.group_id,
        state=group.state,
        epoch=group.epoch,
        target_epoch=group.target_epoch,
        assignor=ASSIGNOR.name,
        members=tuple(_described(group, member, topics) for member in group.members.values()),
    )


def _described(group: ShareGroup, member: ShareMemberRecord, topics: TopicView) -> DescribedShareMember:
    current = group.current_of(member.member_id)
    return DescribedShareMember(
        member.member_id,
        member.rack_id,
        current.epoch,
        member.client_id,
        member.client_host,
        member.topics,
        named(current.assigned, topics),
    )


def listed(group: ShareGroup) -> ListedGroup:
    return ListedGroup(group.group_id, TYPE, group.state, TYPE)


def list_topics(builder: DecisionBuilder, request: ListSharedTopics) -> SharedTopicsReply:
    group = builder.state.ledger.shares.get(request.group_id)
    if group is None:
        is_new = request.may_be_new and not is_taken(builder, request.group_id)
        return SharedTopicsReply() if is_new else SharedTopicsReply(ErrorCode.GROUP_ID_NOT_FOUND)
    if request.must_be_empty and group.members:
        return SharedTopicsReply(ErrorCode.NON_EMPTY_GROUP)
    is_there = builder.state.topics.topic_name
    return SharedTopicsReply(topics=tuple(one for one in group.topics.values() if is_there(one.topic_id)))


def change(builder: DecisionBuilder, request: ChangeSharedTopics) -> SharedTopicsReply:
    """By an administrator, while the group is empty: members would continue with what they hold."""
    asked = ListSharedTopics(request.group_id, must_be_empty=True, may_be_new=bool(request.added))
    reply = list_topics(builder, asked)
    if reply.error is ErrorCode.NONE:
        group = builder.state.ledger.shares.get(request.group_id) or ShareGroup(request.group_id)
        change_topics(builder, group, request.added, request.removed)
    return reply

"""The target assignment of a share group, written where it differs."""

from __future__ import annotations

from qanat.groups.assignors.assignor import AssignedMember
from qanat.groups.assignors.simple import SimpleAssignor
from qanat.groups.consumer.records import Partitions, TopicIdPartition
from qanat.groups.decision_builder import DecisionBuilder, TopicView
from qanat.groups.share.group import ShareGroup
from qanat.groups.share.records import ShareTargetEpochRecord, ShareTargetRecord
from qanat.model.ids import TopicPartition

ASSIGNOR = SimpleAssignor()
"""Kafka's only one for share groups, too."""


def assign(builder: DecisionBuilder, group: ShareGroup) -> None:
    """Bring the target to the group's epoch, if it is not there."""
    if group.epoch <= group.target_epoch:
        return
    for member_id, partitions in _assigned(group, builder.state.topics).items():
        if group.targets.get(member_id) != partitions:
            builder.write(ShareTargetRecord(group.group_id, member_id, partitions))
    builder.write(ShareTargetEpochRecord(group.group_id, group.epoch))


def _assigned(group: ShareGroup, topics: TopicView) -> dict[str, Partitions]:
    """The assignor knows topics by name, the records by id."""
    counts: dict[str, int] = {}
    ids: dict[str, bytes] = {}
    for name in group.subscribed_topics():
        count, topic_id = topics.partition_count(name), topics.topic_id(name)
        if count is not None and topic_id is not None:
            counts[name], ids[name] = count, topic_id
    names = {topic_id: name for name, topic_id in ids.items()}
    members = {
        member_id: AssignedMember(member.topics, _named(group.targets.get(member_id, ()), names))
        for member_id, member in group.members.items()
    }
    assignment = ASSIGNOR.assign(members, counts)
    return {
        member_id: tuple(sorted(TopicIdPartition(ids[at.topic], at.partition) for at in assignment[member_id]))
        for member_id in group.members
    }


def _named(partitions: Partitions, names: dict[bytes, str]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(names[at.topic_id], at.partition) for at in partitions if at.topic_id in names)

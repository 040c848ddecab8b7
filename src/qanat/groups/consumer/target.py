"""The target assignment: made by an assignor, written where it differs."""

from __future__ import annotations

from qanat.groups.assignors.assignor import AssignedMember, Assignor
from qanat.groups.consumer.group import ConsumerGroup
from qanat.groups.consumer.records import (
    Partitions,
    TargetAssignmentRecord,
    TargetEpochRecord,
    TopicIdPartition,
)
from qanat.groups.decision_builder import DecisionBuilder, TopicView
from qanat.model.ids import TopicPartition


def assign(builder: DecisionBuilder, group: ConsumerGroup) -> None:
    """Bring the target to the group's epoch, if it is not there."""
    if group.epoch <= group.target_epoch:
        return
    topics = builder.state.topics
    assignor = builder.state.assignors[preferred_assignor(group, builder.state.assignors)]
    for member_id, partitions in _assigned(group, topics, assignor).items():
        if group.targets.get(member_id) != partitions:
            builder.write(TargetAssignmentRecord(group.group_id, member_id, partitions))
    builder.write(TargetEpochRecord(group.group_id, group.epoch))


def preferred_assignor(group: ConsumerGroup, installed: dict[str, Assignor]) -> str:
    """The assignor that most members request; the broker's first where none is requested."""
    votes: dict[str, int] = {}
    for member in group.members.values():
        if member.assignor in installed:
            votes[member.assignor] = votes.get(member.assignor, 0) + 1
    return max(votes, key=votes.__getitem__) if votes else next(iter(installed))


def _assigned(group: ConsumerGroup, topics: TopicView, assignor: Assignor) -> dict[str, Partitions]:
    """The assignor knows topics by name, the records by id."""
    counts: dict[str, int] = {}
    ids: dict[str, bytes] = {}
    names: dict[bytes, str] = {}
    for name in group.subscribed_topics():
        count, topic_id = topics.partition_count(name), topics.topic_id(name)
        if count is not None and topic_id is not None:
            counts[name], ids[name], names[topic_id] = count, topic_id, name
    members = {
        member_id: AssignedMember(
            group.topics_of(member),
            tuple(
                TopicPartition(names[at.topic_id], at.partition)
                for at in group.target_of(member_id)
                if at.topic_id in names
            ),
            member.instance_id,
            member.rack_id,
        )
        for member_id, member in group.members.items()
    }
    assignment = assignor.assign(members, counts)
    return {
        member_id: tuple(sorted(TopicIdPartition(ids[at.topic], at.partition) for at in assignment.get(member_id, ())))
        for member_id in group.members
    }

"""The assignment that members of a share group are to have, written down where it differs."""

from __future__ import annotations

from qanat.groups.assignors.assignor import AssignedMember
from qanat.groups.assignors.simple import SimpleAssignor
from qanat.groups.consumer.records import Partitions, TopicIdPartition
from qanat.groups.share.group import ShareGroup
from qanat.groups.share.records import ShareTargetEpochRecord, ShareTargetRecord
from qanat.groups.turn import TopicView, Turn
from qanat.model.ids import TopicPartition

ASSIGNOR = SimpleAssignor()
"""The one that Kafka has for share groups, too."""


def assign(turn: Turn, group: ShareGroup) -> None:
    """Bring the target to the group's epoch, if it is not there."""
    if group.epoch <= group.target_epoch:
        return
    for member_id, partitions in _assigned(group, turn.state.topics).items():
        if group.targets.get(member_id) != partitions:
            turn.write(ShareTargetRecord(group.group_id, member_id, partitions))
    turn.write(ShareTargetEpochRecord(group.group_id, group.epoch))


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
    given = ASSIGNOR.assign(members, counts)
    return {
        member_id: tuple(sorted(TopicIdPartition(ids[at.topic], at.partition) for at in given[member_id]))
        for member_id in group.members
    }


def _named(partitions: Partitions, names: dict[bytes, str]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(names[at.topic_id], at.partition) for at in partitions if at.topic_id in names)

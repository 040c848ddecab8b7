"""A new target assignment by an assignor, for consumer groups and share groups.

Assignors know topics by name, the records by id.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from qanat.groups.assignors.assignor import AssignedMember, Assignor
from qanat.groups.consumer.records import Partitions, TopicIdPartition
from qanat.groups.decision_builder import TopicView
from qanat.model.ids import TopicPartition


def changed_targets(
    assignor: Assignor, subscribers: Mapping[str, AssignedMember], targets: Mapping[str, Partitions], topics: TopicView
) -> dict[str, Partitions]:
    """The targets of the members whose `targets` change; `subscribers` do not name their partitions yet."""
    counts: dict[str, int] = {}
    ids: dict[str, bytes] = {}
    for name in dict.fromkeys(topic for member in subscribers.values() for topic in member.topics):
        count, topic_id = topics.partition_count(name), topics.topic_id(name)
        if count is not None and topic_id is not None:
            counts[name], ids[name] = count, topic_id
    names = {topic_id: name for name, topic_id in ids.items()}
    members = {
        member_id: replace(member, current=_named(targets.get(member_id, ()), names))
        for member_id, member in subscribers.items()
    }
    assignment = assignor.assign(members, counts)
    found = {
        member_id: tuple(sorted(TopicIdPartition(ids[at.topic], at.partition) for at in assignment.get(member_id, ())))
        for member_id in subscribers
    }
    return {member_id: target for member_id, target in found.items() if targets.get(member_id) != target}


def _named(partitions: Partitions, names: Mapping[bytes, str]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(names[at.topic_id], at.partition) for at in partitions if at.topic_id in names)

"""The assignor `range`: of every topic, the first members get the first partitions.

Topics with the same number of partitions and the same subscribers are divided alike, so that one member reads
partition 3 of both: joining two topics needs that.
"""

from __future__ import annotations

from collections.abc import Mapping

from qanat.groups.assignors.assignor import AssignedMember, Assignment
from qanat.model.ids import TopicPartition


class RangeAssignor:
    """See the module."""

    name = "range"

    def assign(self, members: Mapping[str, AssignedMember], partition_counts: Mapping[str, int]) -> Assignment:
        order = sorted(members, key=lambda member: _rank(member, members[member]))
        held: dict[str, list[TopicPartition]] = {member: [] for member in sorted(members)}
        for topic in sorted(partition_counts):
            subscribers = [member for member in order if topic in members[member].topics]
            if subscribers:
                _divide(topic, partition_counts[topic], subscribers, held)
        return {member: tuple(sorted(partitions)) for member, partitions in held.items()}


def _rank(member_id: str, member: AssignedMember) -> tuple[bool, str]:
    """Static members by their instance ids, which a restart does not change, before the others."""
    return (member.instance_id is None, member.instance_id or member_id)


def _divide(topic: str, count: int, subscribers: list[str], held: dict[str, list[TopicPartition]]) -> None:
    size, more = divmod(count, len(subscribers))
    first = 0
    for number, member in enumerate(subscribers):
        end = first + size + (number < more)
        held[member] += [TopicPartition(topic, partition) for partition in range(first, end)]
        first = end

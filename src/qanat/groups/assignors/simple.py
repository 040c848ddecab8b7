"""The assignor `simple` of share groups: every member has a partition, and every partition has a member.

Where there are more partitions than members, each partition goes to one member; where there are more members, each
member reads one partition, together with others. Both as evenly as possible, and a member keeps a partition if that
is fair. Topics with the same readers are divided together.

Unlike the assignors of consumer groups, it assigns a partition to several members.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from qanat.groups.assignors.assignor import AssignedMember, Assignment
from qanat.model.ids import TopicPartition

Taker = TypeVar("Taker", bound=Hashable)
Thing = TypeVar("Thing", bound=Hashable)


class SimpleAssignor:
    """See the module."""

    name = "simple"

    def assign(self, members: Mapping[str, AssignedMember], partition_counts: Mapping[str, int]) -> Assignment:
        held: dict[str, list[TopicPartition]] = {member: [] for member in sorted(members)}
        for readers, topics in _pools(members, partition_counts).items():
            partitions = [
                TopicPartition(topic, number) for topic in topics for number in range(partition_counts[topic])
            ]
            pool = dict.fromkeys(partitions)
            current = {one: [at for at in members[one].current if at in pool] for one in readers}
            divided = _divided(readers, partitions, current)
            for member, assigned in divided.items():
                held[member] += assigned
        return {member: tuple(sorted(partitions)) for member, partitions in held.items()}


def _pools(
    members: Mapping[str, AssignedMember], partition_counts: Mapping[str, int]
) -> dict[tuple[str, ...], list[str]]:
    """Topics by their readers."""
    readers: dict[str, list[str]] = {}
    for member in sorted(members):
        for topic in dict.fromkeys(members[member].topics):
            if topic in partition_counts:
                readers.setdefault(topic, []).append(member)
    pools: dict[tuple[str, ...], list[str]] = {}
    for topic in sorted(readers):
        pools.setdefault(tuple(readers[topic]), []).append(topic)
    return pools


def _divided(
    members: Sequence[str], partitions: Sequence[TopicPartition], current: Mapping[str, Iterable[TopicPartition]]
) -> dict[str, list[TopicPartition]]:
    if len(members) < len(partitions):
        return _dealt(members, partitions, current)
    having = {at: [member for member in members if at in current[member]] for at in partitions}
    workers = _dealt(partitions, members, having)
    return {member: [at] for at, crew in workers.items() for member in crew}


def _dealt(
    takers: Sequence[Taker], things: Sequence[Thing], current: Mapping[Taker, Iterable[Thing]]
) -> dict[Taker, list[Thing]]:
    """Every thing to one taker, evenly: takers first keep what they have, then the rest goes to the one with least."""
    size, extra = divmod(len(things), len(takers))
    free = dict.fromkeys(things)
    held: dict[Taker, list[Thing]] = {taker: [] for taker in takers}
    for taker in takers:
        for thing in current[taker]:
            limit = size + (extra > 0)
            if thing in free and len(held[taker]) < limit:
                del free[thing]
                held[taker].append(thing)
                extra -= len(held[taker]) > size
    left = list(reversed(free))
    for limit in (size, size + 1):
        for taker in takers:
            while left and len(held[taker]) < limit:
                held[taker].append(left.pop())
    return held

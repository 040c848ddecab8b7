"""The assignor `uniform`: as even as subscriptions allow, and a member keeps a partition if that is fair.

Members are ordered by their ids. First each member keeps what it has, up to its fair share where all
subscriptions are equal; then free partitions go to the member with the fewest; then partitions move from members with
the most to subscribers with at least two less, until no move is an improvement.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapreplace

from qanat.groups.assignors.assignor import AssignedMember, Assignment
from qanat.model.ids import TopicPartition


class UniformAssignor:
    """See the module."""

    name = "uniform"

    def assign(self, members: Mapping[str, AssignedMember], partition_counts: Mapping[str, int]) -> Assignment:
        division = _Division(members, partition_counts)
        division.keep()
        division.hand_out()
        division.balance()
        return {member: tuple(sorted(division.held[member])) for member in sorted(members)}


class _Division:
    """An assignment in progress."""

    def __init__(self, members: Mapping[str, AssignedMember], partition_counts: Mapping[str, int]) -> None:
        self._members = members
        self._order = sorted(members)
        self._subscribers: dict[str, list[str]] = {}
        for member in self._order:
            for topic in dict.fromkeys(members[member].topics):
                if topic in partition_counts:
                    self._subscribers.setdefault(topic, []).append(member)
        self._owner: dict[TopicPartition, str | None] = {
            TopicPartition(topic, number): None
            for topic in sorted(self._subscribers)
            for number in range(partition_counts[topic])
        }
        self.held: dict[str, dict[TopicPartition, None]] = {member: {} for member in self._order}
        self._lowest = 0
        """The fewest partitions of a member at the beginning of a round; it can only have got more since."""

    def keep(self) -> None:
        """Each member keeps what it has and may have; where all subscriptions are equal, not more than a fair share."""
        count, most = len(self._owner), len(self._owner)
        extra = 0
        if all(len(found) == len(self._order) for found in self._subscribers.values()) and self._order:
            most, extra = divmod(count, len(self._order))
        wanted = {topic: dict.fromkeys(members) for topic, members in self._subscribers.items()}
        for member in self._order:
            for at in sorted(self._members[member].current):
                is_free = at in self._owner and self._owner[at] is None and member in wanted[at.topic]
                size = len(self.held[member])
                if is_free and (size < most or (size == most and extra > 0)):
                    if size == most:
                        extra -= 1
                    self._give(at, member)

    def hand_out(self) -> None:
        """Free partitions go to the subscriber with the fewest."""
        queues: dict[str, list[tuple[int, str]]] = {}
        for at, owner in list(self._owner.items()):
            if owner is None:
                if at.topic not in queues:
                    queues[at.topic] = sorted((len(self.held[one]), one) for one in self._subscribers[at.topic])
                self._give(at, self._least(queues[at.topic]))

    def _least(self, queue: list[tuple[int, str]]) -> str:
        """The first of a heap; its numbers may be too low, because other heaps assign to the same members."""
        while queue[0][0] != len(self.held[queue[0][1]]):
            heapreplace(queue, (len(self.held[queue[0][1]]), queue[0][1]))
        return queue[0][1]

    def balance(self) -> None:
        """Move one partition at a time from a member with more to one with at least two less; each move evens out."""
        is_moving = True
        while is_moving:
            self._lowest = min(map(len, self.held.values()), default=0)
            is_moving = any(self._relieve(member) for member in self._order)

    def _relieve(self, member: str) -> bool:
        moved = False
        if len(self.held[member]) <= self._lowest + 1:
            return False
        for at in sorted(self.held[member], reverse=True):
            least = min(self._subscribers[at.topic], key=lambda one: (len(self.held[one]), one))
            if len(self.held[least]) + 1 < len(self.held[member]):
                del self.held[member][at]
                self._give(at, least)
                moved = True
        return moved

    def _give(self, at: TopicPartition, member: str) -> None:
        self._owner[at] = member
        self.held[member][at] = None

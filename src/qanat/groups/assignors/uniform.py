"""The assignor `uniform`: as even as subscriptions allow, and who has a partition keeps it if that is fair.

Members in order of their ids. First everybody keeps what it has, up to its fair share where all
subscribe to the same; then what is free goes to whoever has least; then partitions move from those who have most
to those who may have them and have at least two less, until nothing is gained by moving.
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
    """Partitions on their way to members."""

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
        """What the member with the fewest had at the beginning of a round; it can only have got more since."""

    def keep(self) -> None:
        """Everybody keeps what it has and may have; where all want the same topics, not more than a fair share."""
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
        """What is free goes to the subscriber that has least."""
        queues: dict[str, list[tuple[int, str]]] = {}
        for at, owner in list(self._owner.items()):
            if owner is None:
                if at.topic not in queues:
                    queues[at.topic] = sorted((len(self.held[one]), one) for one in self._subscribers[at.topic])
                self._give(at, self._least(queues[at.topic]))

    def _least(self, queue: list[tuple[int, str]]) -> str:
        """The first of a heap; numbers in it may be too low, because others hand out to the same members."""
        while queue[0][0] != len(self.held[queue[0][1]]):
            heapreplace(queue, (len(self.held[queue[0][1]]), queue[0][1]))
        return queue[0][1]

    def balance(self) -> None:
        """Move one partition at a time from who has more to who has at least two less; each move evens out."""
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

"""Generations: what a consumer application holds of a partition before and after a refresh, never mixed.

A refresh begins with RESET and ends with READY. In between, the records of its partitions fill a new generation while
the served one is read; READY serves the new one, of all its partitions in one step.

Rule 1: RESET and READY are answered once the state that they lead to is durable. So the broker repeats them, or they
        are known here.
Rule 2: the same RESET or READY again changes nothing.
Rule 3: a partition has at most one generation that is being filled; a later refresh replaces it, and what is served
        stays.
Rule 4: a generation's number is never used twice, so that what a crash leaves behind is not mistaken for it.
Rule 5: the edition of what is served rises before anything else changes than that records are added at the end, or
        deleted because they are old. So who reads in pages notices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from qanat.model.ids import TopicPartition

FIRST = 1
NONE = 0


class Held(Struct, frozen=True):
    """The generations of one partition."""

    served: int = FIRST
    filling: int = NONE


_FIRST_ONLY = Held()


class Generations(Struct, frozen=True):
    """The generations of all partitions: a value, which its owner makes durable before it acts on it."""

    last_number: int = FIRST
    refreshes: dict[int, str] = {}
    """The refresh that fills, or filled, each generation but the first."""
    partitions: dict[str, Held] = {}
    """By the partition's name; partitions that were never refreshed are not listed."""
    voids: dict[str, int] = {}
    """How often records that were served of a partition became void, by its name."""

    def held(self, at: TopicPartition) -> Held:
        return self.partitions.get(str(at), _FIRST_ONLY)

    def has(self, at: TopicPartition, number: int) -> bool:
        """Whether a generation of a partition belongs to the state; others are what a crash left behind."""
        held = self.held(at)
        return number in (held.served, held.filling)

    def served_refresh(self, at: TopicPartition) -> str:
        """The refresh that filled what is served; empty for the first generation."""
        return self.refreshes.get(self.held(at).served, "")

    def filling_refresh(self, at: TopicPartition) -> str:
        """The refresh that is filling a new generation; empty where none is."""
        return self.refreshes.get(self.held(at).filling, "")

    @property
    def under_way(self) -> Mapping[str, int]:
        """The refreshes that are not complete, and their generations."""
        numbers = sorted({held.filling for held in self.partitions.values() if held.filling != NONE})
        return MappingProxyType({self.refreshes[number]: number for number in numbers})

    def edition(self, topic: str, partition: int | None = None) -> int:
        """A number that rises when what is served of a topic is replaced, or becomes void; of one partition, if named.

        >>> Generations(3, {3: "r"}, {"prices-0": Held(3)}, {"prices-1": 1}).edition("prices")
        3
        """
        served = {name: held.served - FIRST for name, held in self.partitions.items()}
        found = 0
        for name, times in (*served.items(), *self.voids.items()):
            of_topic, _, of_partition = name.rpartition("-")
            if of_topic == topic and partition in (None, int(of_partition)):
                found += times
        return found

    def voided(self, at: TopicPartition) -> Generations:
        """Records that are served of a partition become void."""
        return replace(self, voids={**self.voids, str(at): self.voids.get(str(at), 0) + 1})

    def reset(self, refresh: str, partitions: Iterable[TopicPartition]) -> Generations:
        """RESET of a refresh: its partitions are filled from here on, unless they are served from it already."""
        new = [at for at in partitions if refresh not in (self.served_refresh(at), self.filling_refresh(at))]
        if not new:
            return self
        known = [number for number, one in self.refreshes.items() if one == refresh]
        number = known[0] if known else self.last_number + 1
        changed = {str(at): replace(self.held(at), filling=number) for at in new}
        refreshes = {**self.refreshes, number: refresh}
        return self._with(refreshes, changed, max(number, self.last_number))

    def ready(self, refresh: str, partitions: Iterable[TopicPartition]) -> Generations:
        """READY of a refresh: what was filled is served."""
        done = [at for at in partitions if self.filling_refresh(at) == refresh]
        if not done:
            return self
        changed = {str(at): Held(self.held(at).filling) for at in done}
        return self._with(self.refreshes, changed)

    def cancelled(self, at: TopicPartition) -> Generations:
        """The refresh of a partition is given up; what is served stays."""
        if self.held(at).filling == NONE:
            return self
        changed = {str(at): Held(self.held(at).served)}
        return self._with(self.refreshes, changed)

    def _with(self, refreshes: dict[int, str], changed: dict[str, Held], last_number: int = FIRST) -> Generations:
        """After a change, without the refreshes whose generations are gone."""
        partitions = {**self.partitions, **changed}
        used = {number for held in partitions.values() for number in (held.served, held.filling)}
        left = {number: one for number, one in refreshes.items() if number in used}
        return replace(self, last_number=max(last_number, self.last_number), refreshes=left, partitions=partitions)

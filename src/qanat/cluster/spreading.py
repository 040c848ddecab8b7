"""Spreading: where replicas should go, away from a broker, or evenly over all of them.

Moving a replica costs its bytes over the network, so as few are moved as possible. A partition retains the order of its
replicas: the broker that replaces the first one is the new preferred leader, unless leaders are to be evened out.

Rule 1: no move reduces the number of racks of a partition.
Rule 2: of a topic, each broker gets its share: a broker that joined does not end up with one topic alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

Replicas = tuple[int, ...]
Key = tuple[str, int]
Plan = dict[Key, Replicas]
Racks = Mapping[int, str | None]

_ROUNDS_MAX = 50
"""Passes over all partitions that look for leaders to move: each but the last one has found some."""


class Placed(Protocol):
    """A partition and its replicas."""

    @property
    def topic(self) -> str: ...

    @property
    def number(self) -> int: ...

    @property
    def replicas(self) -> Replicas: ...


def drained(
    partitions: Sequence[Placed], node_id: int, brokers: Sequence[int], racks: Racks | None = None
) -> Plan | str:
    """Another broker for every replica that a broker holds, as far as there is one; or why it must stay."""
    others = [one for one in brokers if one != node_id]
    load = _load(partitions, others)
    plan: Plan = {}
    for partition in partitions:
        if node_id not in partition.replicas:
            continue
        stay = tuple(one for one in partition.replicas if one != node_id)
        chosen = least_loaded(stay, load, racks or {})
        if chosen is None and not stay:
            return f"{partition.topic}-{partition.number} has no other broker to go to: start one"
        if chosen is None:
            plan[partition.topic, partition.number] = stay
            continue
        load[chosen] += 1
        plan[partition.topic, partition.number] = tuple(chosen if one == node_id else one for one in partition.replicas)
    return plan


def least_loaded(replicas: Sequence[int], load: Mapping[int, int], racks: Racks) -> int | None:
    """The broker that should hold another replica: in a rack of its own if possible, then the one that holds fewest."""
    used = {racks.get(one) for one in replicas}
    free = [one for one in load if one not in replicas]
    return min(free, key=lambda one: (racks.get(one) in used, load[one], one), default=None)


def evened(partitions: Sequence[Placed], brokers: Sequence[int], racks: Racks | None = None) -> Plan:
    """Replicas, then preferred leaders, moved until no broker has more than one more than any other."""
    now = {(one.topic, one.number): one.replicas for one in partitions}
    spread = _Spread(now, brokers, racks or {})
    while spread.move_one():
        pass
    _even_leaders(spread.targets, brokers)
    return {key: target for key, target in spread.targets.items() if target != now[key]}


class _Spread:
    """Which broker holds what, while it is being decided."""

    def __init__(self, targets: Mapping[Key, Replicas], brokers: Sequence[int], racks: Racks) -> None:
        self.targets = dict(targets)
        self._racks = racks
        self._load = dict.fromkeys(brokers, 0)
        self._held: dict[int, dict[str, dict[Key, None]]] = {node_id: {} for node_id in brokers}
        """The partitions of each broker and topic."""
        for key, replicas in self.targets.items():
            for node_id in replicas:
                if node_id in self._load:
                    self._add(node_id, key)

    def move_one(self) -> bool:
        """Move one replica from the broker that has most to the one that has fewest; False where that gains nothing any
        more."""
        rising = sorted(self._load, key=lambda one: (self._load[one], one))
        for source in sorted(self._load, key=lambda one: (-self._load[one], one)):
            for target in rising:
                if self._load[source] - self._load[target] < 2:
                    break
                if (key := self._movable(source, target)) is not None:
                    self.targets[key] = tuple(target if one == source else one for one in self.targets[key])
                    self._drop(source, key)
                    self._add(target, key)
                    return True
        return False

    def _movable(self, source: int, target: int) -> Key | None:
        """A partition to move, of the topic in which the source is furthest ahead of the target."""
        held, there = self._held[source], self._held[target]
        for topic in sorted(held, key=lambda name: (len(there.get(name, ())) - len(held[name]), name)):
            for key in held[topic]:
                if target not in self.targets[key] and self._is_spread(self.targets[key], source, target):
                    return key
        return None

    def _is_spread(self, replicas: Replicas, source: int, target: int) -> bool:
        others = {self._racks.get(one) for one in replicas if one != source}
        return self._racks.get(target) not in others or self._racks.get(source) in others

    def _add(self, node_id: int, key: Key) -> None:
        self._load[node_id] += 1
        self._held[node_id].setdefault(key[0], {})[key] = None

    def _drop(self, node_id: int, key: Key) -> None:
        self._load[node_id] -= 1
        del self._held[node_id][key[0]][key]
        if not self._held[node_id][key[0]]:
            del self._held[node_id][key[0]]


def _even_leaders(targets: Plan, brokers: Sequence[int]) -> None:
    leads = dict.fromkeys(brokers, 0)
    for replicas in targets.values():
        if replicas and replicas[0] in leads:
            leads[replicas[0]] += 1
    for _ in range(_ROUNDS_MAX):
        has_changed = False
        for key, replicas in targets.items():
            known = [one for one in replicas if one in leads]
            if not known or replicas[0] not in leads:
                continue
            lowest = min(known, key=lambda one: (leads[one], one))
            if leads[replicas[0]] - leads[lowest] >= 2:
                leads[replicas[0]] -= 1
                leads[lowest] += 1
                targets[key] = (lowest, *(one for one in replicas if one != lowest))
                has_changed = True
        if not has_changed:
            return


def _load(partitions: Iterable[Placed], brokers: Sequence[int]) -> dict[int, int]:
    load = dict.fromkeys(brokers, 0)
    for partition in partitions:
        for node_id in partition.replicas:
            if node_id in load:
                load[node_id] += 1
    return load

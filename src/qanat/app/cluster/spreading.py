"""Where replicas should go, decided from what there is: away from a broker, or evenly over all of them.

Moving a replica costs its bytes over the network, so as few are moved as will do. A partition keeps the order of its
replicas: whoever replaces the first one is the new preferred leader, unless leaders are to be evened out.
"""

from __future__ import annotations

from collections.abc import Sequence

from qanat.app.cluster.view import PartitionView

Target = tuple[int, ...]
Plan = dict[tuple[str, int], Target]


def drained(partitions: Sequence[PartitionView], node_id: int, brokers: Sequence[int]) -> Plan | str:
    """Another home for everything that a broker holds, as far as there is one; or why it must stay."""
    others = [one for one in brokers if one != node_id]
    load = _load(partitions, others)
    plan: Plan = {}
    for partition in partitions:
        if node_id not in partition.replicas:
            continue
        free = [one for one in others if one not in partition.replicas]
        if not free and len(partition.replicas) == 1:
            return f"{partition.topic}-{partition.number} has no other broker to go to: start one"
        if not free:
            plan[partition.topic, partition.number] = tuple(one for one in partition.replicas if one != node_id)
            continue
        chosen = min(free, key=lambda one: (load[one], one))
        load[chosen] += 1
        plan[partition.topic, partition.number] = tuple(chosen if one == node_id else one for one in partition.replicas)
    return plan


def evened(partitions: Sequence[PartitionView], brokers: Sequence[int]) -> Plan:
    """Replicas, then preferred leaders, moved until no broker has more than one more than any other."""
    now = {(one.topic, one.number): one.replicas for one in partitions}
    targets = dict(now)
    load = _load(partitions, brokers)
    for _ in range(len(partitions) * len(brokers) + 1):
        moved = _move_one(targets, load, brokers)
        if not moved:
            break
    _even_leaders(targets, brokers)
    return {key: target for key, target in targets.items() if target != now[key]}


def _move_one(targets: Plan, load: dict[int, int], brokers: Sequence[int]) -> bool:
    for source in sorted(brokers, key=lambda one: (-load[one], one)):
        for target in sorted(brokers, key=lambda one: (load[one], one)):
            if load[source] - load[target] < 2:
                break
            for key, replicas in targets.items():
                if source in replicas and target not in replicas:
                    targets[key] = tuple(target if one == source else one for one in replicas)
                    load[source] -= 1
                    load[target] += 1
                    return True
    return False


def _even_leaders(targets: Plan, brokers: Sequence[int]) -> None:
    leads = dict.fromkeys(brokers, 0)
    for replicas in targets.values():
        if replicas and replicas[0] in leads:
            leads[replicas[0]] += 1
    for _ in range(len(targets)):
        for key, replicas in targets.items():
            lowest = min(replicas, key=lambda one: (leads.get(one, 0), one))
            if replicas[0] in leads and leads[replicas[0]] - leads.get(lowest, 0) >= 2:
                leads[replicas[0]] -= 1
                leads[lowest] += 1
                targets[key] = (lowest, *(one for one in replicas if one != lowest))
                break
        else:
            return


def _load(partitions: Sequence[PartitionView], brokers: Sequence[int]) -> dict[int, int]:
    load = dict.fromkeys(brokers, 0)
    for partition in partitions:
        for node_id in partition.replicas:
            if node_id in load:
                load[node_id] += 1
    return load

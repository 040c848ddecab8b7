"""The plan of a run, drawn from its seed: the cluster's size, its load and its faults."""

from __future__ import annotations

from random import Random

from msgspec import Struct

from verify.clusters.faults import DRAWN_APART, FAULTS, NEED_FSYNC

_FEW_KINDS = 0.3
"""Share of runs with few kinds of faults, each of them often."""

_WITH_USERS = 0.25
"""Share of runs with users and ACLs."""


class Plan(Struct, frozen=True):
    """Everything that a seed decides before the run."""

    brokers: int
    replicas: int
    min_in_sync: int
    partitions: int
    segment_bytes: int
    is_synced: bool
    seconds: float
    faults: tuple[str, ...]
    producers: int
    transactors: int
    has_operator: bool
    """Whether an operator moves partitions, and creates and deletes topics."""
    has_group: bool
    """Whether a consumer group commits offsets."""
    rivals: int
    """Further producers with the transactional id of the first one."""
    slow_share: float
    """Share of connections that are slow."""
    work_s: float
    """Mean time of a flush, and of other work on a thread."""
    reads_from_followers: bool = False
    """Whether consumers fetch from a random replica instead of the leader."""
    has_users: bool = False
    """Whether there are users with ACLs, which an administrator changes."""

    @staticmethod
    def of(seed: int) -> Plan:
        random = Random(f"plan {seed}")
        brokers = random.choice((1, 2, 3, 3, 3, 3, 4, 5))
        replicas = min(random.choice((1, 2, 3, 3, 3)), brokers)
        # Without fsync before an acknowledgement, a power loss may lose acknowledged records: that is documented.
        is_synced = random.random() < 0.8
        kinds = [name for name in FAULTS if name not in DRAWN_APART and (is_synced or name not in NEED_FSYNC)]
        faults = tuple(name for name in kinds if random.random() < 0.5) or (random.choice(kinds),)
        if random.random() < _FEW_KINDS:
            faults = tuple(random.sample(kinds, random.randint(1, 3)))
        apart = [name for name, share in DRAWN_APART.items() if Random(f"{name} {seed}").random() < share]
        if brokers > 1 and "refused link" in apart:
            faults += ("refused link",)
        if is_synced and replicas > 2 and "lying disk" in apart:
            faults += ("lying disk",)
        if not is_synced and replicas > 1 and "last one standing" in apart:
            faults += ("last one standing",)
        transactors = random.randint(0, 1)
        return Plan(
            brokers=brokers,
            replicas=replicas,
            min_in_sync=min(2, replicas),
            partitions=random.randint(1, 3),
            segment_bytes=random.choice((1024, 4096, 1024 * 1024)),
            is_synced=is_synced,
            seconds=random.uniform(6, 12),
            faults=faults,
            producers=random.randint(1, 3),
            transactors=transactors,
            has_operator=random.random() < 0.4,
            has_group=random.random() < 0.4,
            rivals=random.choice((0, 0, 1)) if transactors else 0,
            slow_share=random.choice((0.0, 0.0, 0.1, 0.3)),
            work_s=random.choice((0.0005, 0.0005, 0.01)),
            reads_from_followers=brokers > 1 and Random(f"nearby {seed}").random() < 0.25,
            has_users=Random(f"users {seed}").random() < _WITH_USERS,
        )

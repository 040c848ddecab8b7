"""Kafka's `cooperative-sticky` assignor: balanced, with as few moves as balance allows.

Members say what they own. A partition that moves from one member to another is assigned to nobody in the
first of two rebalances, so that no two members own it at one time (KIP-429).

Rule 1: members and partitions are sorted, so that every member would compute the same result.
Rule 2: of two members that claim a partition, the later generation owns it; of one generation, none does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from qanat.model.ids import TopicPartition

COOPERATIVE_STICKY = "cooperative-sticky"


class Claim(NamedTuple):
    """What a member subscribes to, and what it owns since which generation."""

    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()
    generation: int = -1


def assign_cooperatively(claims: Mapping[str, Claim], sizes: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
    """The balanced assignment, without partitions that their owners must give back first."""
    kept = _kept(claims, sizes)
    claimants: dict[TopicPartition, list[str]] = {}
    for member, claim in claims.items():
        for at in claim.owned:
            claimants.setdefault(at, []).append(member)

    def is_free(at: TopicPartition, member: str) -> bool:
        return at in kept[member] or claimants.get(at, [member]) == [member]

    balanced = assign_sticky(claims, sizes)
    return {member: [at for at in some if is_free(at, member)] for member, some in balanced.items()}


def assign_sticky(claims: Mapping[str, Claim], sizes: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
    """The balanced assignment: members keep what they own, as far as nobody has two partitions less."""
    given = _kept(claims, sizes)
    taken = {at for partitions in given.values() for at in partitions}
    wanted = {topic for claim in claims.values() for topic in claim.topics}
    for topic, size in sorted(sizes.items()):
        for at in (TopicPartition(topic, number) for number in range(size)):
            if at not in taken and topic in wanted:
                _poorest(given, claims, topic).append(at)
    while _even_out(given, claims):
        pass
    return {member: sorted(partitions) for member, partitions in given.items()}


def _kept(claims: Mapping[str, Claim], sizes: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
    """What each member owns for sure."""
    best: dict[TopicPartition, tuple[int, str | None]] = {}
    for member, claim in sorted(claims.items()):
        for at in claim.owned:
            generation, _ = best.get(at, (-2, None))
            if claim.generation > generation:
                best[at] = claim.generation, member
            elif claim.generation == generation:
                best[at] = generation, None
    given: dict[str, list[TopicPartition]] = {member: [] for member in sorted(claims)}
    for at, (_, owner) in sorted(best.items()):
        if owner is not None and at.topic in claims[owner].topics and at.partition < sizes.get(at.topic, 0):
            given[owner].append(at)
    return given


def _poorest(given: dict[str, list[TopicPartition]], claims: Mapping[str, Claim], topic: str) -> list[TopicPartition]:
    return min((own for member, own in given.items() if topic in claims[member].topics), key=len)


def _even_out(given: dict[str, list[TopicPartition]], claims: Mapping[str, Claim]) -> bool:
    """Move one partition from a member to one that has at least two less; False where there is none."""
    for rich in sorted(given, key=lambda member: (-len(given[member]), member)):
        for at in reversed(given[rich]):
            poor = _poorest(given, claims, at.topic)
            if len(given[rich]) - len(poor) >= 2:
                given[rich].remove(at)
                poor.append(at)
                return True
    return False

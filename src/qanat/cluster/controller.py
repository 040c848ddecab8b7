"""The controller's changes of partitions: commits that carry out what `elections` decides.

There is one controller at a time, the broker that holds `/qanat/controller`. Its epoch is that key's create revision,
and every commit compares it: a controller that was paused and wakes up changes nothing.

Rule 1: every commit compares the key of each partition that it writes, as it was at the decision.
Rule 2: an unchanged state is not written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from qanat.cluster import keys, values
from qanat.cluster.elections import Awaited, Rules, awaited, prefer, settle
from qanat.cluster.image import MetadataImage
from qanat.cluster.nodes import Nodes
from qanat.cluster.proofs import Evidence
from qanat.cluster.store import OPERATIONS_MAX, Commit, CreatedAt, Put, Revision

PARTITIONS_AT_ONCE = OPERATIONS_MAX // 2
"""Partitions of one commit."""

RulesOf = Callable[[str], Rules]
EvidenceOf = Callable[[str, int], Evidence]
"""By topic id and partition."""
State = values.PartitionState


class PartitionChange(Struct, frozen=True):
    """A partition as it is and as it should be."""

    topic: values.Topic
    number: int
    before: values.PartitionState
    after: values.PartitionState

    @property
    def key(self) -> str:
        return keys.partition(self.topic.identity, self.number)


class Waiting(Struct, frozen=True):
    """A partition without a leader, and the brokers that its election waits for."""

    topic: values.Topic
    number: int
    state: values.PartitionState
    awaited: Awaited


def partitions_to_settle(
    image: MetadataImage, rules_of: RulesOf, evidence_of: EvidenceOf, topics: Iterable[str]
) -> Iterator[PartitionChange]:
    """Partitions of these topics whose state is not as it should be."""
    return _changed(image, rules_of, evidence_of, topics, settle)


def leaders_to_move(
    image: MetadataImage, rules_of: RulesOf, evidence_of: EvidenceOf, topics: Iterable[str]
) -> Iterator[PartitionChange]:
    """Partitions that are not led by their first replica although they could be."""
    return _changed(image, rules_of, evidence_of, topics, prefer)


def partitions_waiting(
    image: MetadataImage, rules_of: RulesOf, evidence_of: EvidenceOf, topics: Iterable[str]
) -> Iterator[Waiting]:
    """For every partition of these topics, the brokers that it waits for; most wait for none."""
    nodes = Nodes.of(image)
    for topic, rules, number, before in _partitions(image, rules_of, topics):
        evidence = evidence_of(topic.topic_id, number)
        yield Waiting(topic, number, before, awaited(before, nodes, rules, evidence))


def _changed(
    image: MetadataImage,
    rules_of: RulesOf,
    evidence_of: EvidenceOf,
    topics: Iterable[str],
    decide: Callable[[State, Nodes, Rules, Evidence], State],
) -> Iterator[PartitionChange]:
    nodes = Nodes.of(image)
    for topic, rules, number, before in _partitions(image, rules_of, topics):
        after = decide(before, nodes, rules, evidence_of(topic.topic_id, number))
        if after is not before:
            yield PartitionChange(topic, number, before, after)


def _partitions(
    image: MetadataImage, rules_of: RulesOf, topics: Iterable[str]
) -> Iterator[tuple[values.Topic, Rules, int, State]]:
    for name in topics:
        topic = image.topics.get(name)
        if topic is not None:
            rules = rules_of(name)
            for number in range(len(topic.partitions)):
                yield topic, rules, number, image.state(topic, number)


def commits(image: MetadataImage, controller: Revision, changes: Sequence[PartitionChange]) -> Iterator[Commit]:
    """Commits of changes by the controller of that epoch, some partitions at a time."""
    for start in range(0, len(changes), PARTITIONS_AT_ONCE):
        piece = changes[start : start + PARTITIONS_AT_ONCE]
        yield Commit(
            (CreatedAt(keys.CONTROLLER, controller), *(image.unchanged(change.key) for change in piece)),
            tuple(Put(change.key, values.encode(change.after, image.format_level)) for change in piece),
        )

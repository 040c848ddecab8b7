"""Reassignments: a partition's replicas changed while it is in use; and leaders chosen by an operator.

A reassignment is written into the partition's state at once: new replicas begin to fetch, replicas that are to be
removed stay until every replica of the target is in sync. Then `elections.settle` ends it. It can be changed again, or
cancelled, on the way.

The broker that gets the request decides; its commit compares the state that it decided on.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from qanat.cluster import keys, values
from qanat.cluster.elections import Rules, led_by_a_member, prefer, recover, with_epoch_after_removal
from qanat.cluster.image import MetadataImage
from qanat.cluster.nodes import Nodes
from qanat.cluster.proofs import NOTHING_KNOWN, Evidence
from qanat.cluster.rejection import Rejection
from qanat.cluster.store import Compare, Operation, Put
from qanat.cluster.values import NO_LEADER
from qanat.model.error_codes import ErrorCode


class PartitionPlan(Struct, frozen=True):
    """One commit about one partition, and its state after it."""

    topic: values.Topic
    number: int
    after: values.PartitionState
    compares: tuple[Compare, ...]
    operations: tuple[Operation, ...]


def decide_reassignment(
    image: MetadataImage, name: str, number: int, target: Sequence[int] | None
) -> PartitionPlan | Rejection:
    """Move a partition to these replicas, the preferred leader first; None cancels a move under way."""
    topic = image.topics.get(name)
    if topic is None or not 0 <= number < len(topic.partitions):
        return _unknown(name, number)
    before = image.state(topic, number)
    after = _cancelled(before, Nodes.of(image)) if target is None else begun(image, before, tuple(target))
    return after if isinstance(after, Rejection) else _plan(image, topic, number, after)


def decide_election(
    image: MetadataImage,
    name: str,
    number: int,
    rules: Rules,
    evidence: Evidence = NOTHING_KNOWN,
    *,
    is_unclean: bool,
) -> PartitionPlan | Rejection:
    """Let the first replica lead again; or, with `is_unclean`, let any replica lead where none can."""
    topic = image.topics.get(name)
    if topic is None or not 0 <= number < len(topic.partitions):
        return _unknown(name, number)
    before, nodes = image.state(topic, number), Nodes.of(image)
    if is_unclean:
        if before.leader != NO_LEADER and before.leader in nodes.alive:
            return Rejection(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
        after = recover(before, nodes, evidence)
        if after is before:
            return Rejection(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                f"None of the replicas {list(before.target)} is alive: start one of these brokers.",
            )
        return _plan(image, topic, number, after)
    if before.leader == before.target[0]:
        return Rejection(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    after = prefer(before, nodes, rules, evidence)
    if after is before:
        return Rejection(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"The preferred leader {before.target[0]} is not in sync or not alive: it leads once it has caught up.",
        )
    return _plan(image, topic, number, after)


def _plan(image: MetadataImage, topic: values.Topic, number: int, after: values.PartitionState) -> PartitionPlan:
    key = keys.partition(topic.identity, number)
    # The topic may be deleted meanwhile: its partitions must not come back.
    compares = (image.unchanged(key), image.unchanged(keys.topic(topic.name)))
    return PartitionPlan(topic, number, after, compares, (Put(key, values.encode(after, image.format_level)),))


def begun(
    image: MetadataImage, before: values.PartitionState, target: tuple[int, ...]
) -> values.PartitionState | Rejection:
    """A partition on its way to these replicas."""
    if (problem := _problem(image, target)) is not None:
        return Rejection(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    removing = tuple(node_id for node_id in before.replicas if node_id not in target)
    adding = tuple(node_id for node_id in target if node_id not in before.replicas or node_id in before.adding)
    return replace(before, replicas=target + removing, adding=adding, removing=removing)


def _problem(image: MetadataImage, target: Sequence[int]) -> str | None:
    if not target:
        return "The manual partition assignment includes an empty replica list."
    for node_id in target:
        if node_id not in image.brokers:
            known = ", ".join(map(str, sorted(image.brokers)))
            return (
                f"The manual partition assignment includes broker {node_id}, but no such broker is registered. "
                f"Registered are: {known}."
            )
    if len(set(target)) < len(target):
        return f"The manual partition assignment {list(target)} includes a broker more than once."
    return None


def _cancelled(before: values.PartitionState, nodes: Nodes) -> values.PartitionState | Rejection:
    if not (before.adding or before.removing):
        return Rejection(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    # Replicas that were to be removed came last; they are where they were before, as far as that is still known.
    replicas = tuple(node_id for node_id in before.replicas if node_id not in before.adding)
    in_sync = tuple(member for member in before.in_sync if member.node_id in replicas)
    if not replicas or not in_sync:
        return Rejection(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The reassignment cannot be taken back: none of the replicas there were before is in sync.",
        )
    # A removed replica loses its log: it is not eligible when it is added again.
    eligible = tuple(member for member in before.eligible if member.node_id in replicas)
    after = replace(before, replicas=replicas, adding=(), removing=(), in_sync=in_sync, eligible=eligible)
    # A new replica may lead already.
    return with_epoch_after_removal(led_by_a_member(after, nodes), before)


def _unknown(name: str, number: int) -> Rejection:
    return Rejection(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {number} of a topic '{name}'.")

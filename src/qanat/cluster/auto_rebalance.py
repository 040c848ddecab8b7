"""Auto rebalance: which partitions the controller moves by itself, for internal topics and for brokers that joined.

Both are reassignments like those that an operator asks for (`reassignments`), begun a few at a time.

Rule 1: replicas go only to brokers that have an inter-broker listener, so that others can follow them.
Rule 2: nothing is spread while a replica is missing: it may be back in a moment, and then nothing need be moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from msgspec import Struct

from qanat.cluster import values
from qanat.cluster.controller import PartitionChange
from qanat.cluster.image import MetadataImage
from qanat.cluster.reassignments import begun
from qanat.cluster.rejection import Rejection
from qanat.cluster.spreading import evened, least_loaded


class _Placed(Struct, frozen=True):
    topic: str
    number: int
    replicas: tuple[int, ...]


def replicas_to_add(image: MetadataImage, wanted: Mapping[str, int]) -> Iterator[PartitionChange]:
    """Partitions of these topics that have fewer replicas than wanted, although there are brokers for more."""
    brokers, racks = _brokers(image), _racks(image)
    topics = [image.topics[name] for name in wanted if name in image.topics]
    load = dict.fromkeys(brokers, 0)
    for topic in topics:
        for number in range(len(topic.partitions)):
            for node_id in image.state(topic, number).target:
                load[node_id] = load.get(node_id, 0) + 1
    load = {node_id: load[node_id] for node_id in brokers}
    for topic in topics:
        for number in range(len(topic.partitions)):
            before = image.state(topic, number)
            if before.adding or before.removing or before.leader not in brokers:
                continue
            target = before.replicas
            while len(target) < wanted[topic.name] and (more := least_loaded(target, load, racks)) is not None:
                load[more] += 1
                target = (*target, more)
            if target != before.replicas:
                yield from _change(image, topic, number, before, target)


def partitions_to_spread(image: MetadataImage, at_once: int) -> list[PartitionChange]:
    """The next moves towards an even spread, at most `at_once` under way; none while a replica is missing."""
    placed: list[_Placed] = []
    moving = 0
    for name, topic in image.topics.items():
        for number in range(len(topic.partitions)):
            state = image.state(topic, number)
            is_moving = bool(state.adding or state.removing)
            moving += is_moving
            if not is_moving and len(state.in_sync) < len(state.replicas):
                return []
            placed.append(_Placed(name, number, state.target))
    if moving >= at_once:
        return []
    plan = evened(placed, _brokers(image), _racks(image))
    return list(islice(_moves(image, plan), at_once - moving))


def _moves(image: MetadataImage, plan: Mapping[tuple[str, int], tuple[int, ...]]) -> Iterator[PartitionChange]:
    for (name, number), target in plan.items():
        topic = image.topics[name]
        before = image.state(topic, number)
        if not (before.adding or before.removing):
            yield from _change(image, topic, number, before, target)


def _change(
    image: MetadataImage, topic: values.Topic, number: int, before: values.PartitionState, target: tuple[int, ...]
) -> Iterator[PartitionChange]:
    after = begun(image, before, target)
    if not isinstance(after, Rejection):
        yield PartitionChange(topic, number, before, after)


def _brokers(image: MetadataImage) -> list[int]:
    return sorted(
        node_id for node_id, one in image.brokers.items() if one.inter_broker is not None and not one.is_stopping
    )


def _racks(image: MetadataImage) -> dict[int, str | None]:
    return {node_id: one.rack for node_id, one in image.brokers.items()}

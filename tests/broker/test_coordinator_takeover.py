"""Coordinators load the internal partitions that this broker leads, and are not made only to drop one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from qanat.broker.coordinator_takeover import Coordinators, CoordinatorTakeover
from qanat.broker.replicas.partition import Partition
from qanat.model.ids import TopicPartition
from qanat.model.topic_names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC

OWNERS = {OFFSETS_TOPIC: "groups", TRANSACTIONS_TOPIC: "transactions", SHARE_STATE_TOPIC: "share_partitions"}


class Recorded:
    """Coordinators that record their calls."""

    def __init__(self, *made: str) -> None:
        self.calls: list[tuple[str, str, Partition]] = []
        self._made = list(made)

    def is_made(self, name: str) -> bool:
        return name in self._made

    def __getattr__(self, name: str) -> Any:
        self._made.append(name)

        def topic_of(owner: str) -> SimpleNamespace:
            return SimpleNamespace(
                take_over=lambda partition: self.calls.append(("load", owner, partition)),
                drop=lambda partition: self.calls.append(("drop", owner, partition)),
            )

        topic = topic_of(name)
        return SimpleNamespace(topic=topic, take_over=topic.take_over, states=SimpleNamespace(topic=topic))


def partition_of(topic: str) -> Partition:
    return cast(Partition, SimpleNamespace(at=TopicPartition(topic, 0)))


@pytest.mark.parametrize("topic", OWNERS)
def test_the_coordinator_of_a_topic_loads_and_drops_its_partitions(topic: str) -> None:
    recorded, partition = Recorded(), partition_of(topic)
    takeover = CoordinatorTakeover(cast(Coordinators, recorded))

    takeover.load(partition)
    takeover.drop(partition)

    assert recorded.calls == [("load", OWNERS[topic], partition), ("drop", OWNERS[topic], partition)]


@pytest.mark.parametrize("topic", OWNERS)
def test_a_coordinator_that_was_never_used_drops_nothing(topic: str) -> None:
    recorded = Recorded()

    CoordinatorTakeover(cast(Coordinators, recorded)).drop(partition_of(topic))

    assert recorded.calls == []


def test_other_topics_concern_no_coordinator() -> None:
    recorded = Recorded(*OWNERS.values())
    takeover = CoordinatorTakeover(cast(Coordinators, recorded))

    takeover.load(partition_of("orders"))
    takeover.drop(partition_of("orders"))

    assert recorded.calls == []

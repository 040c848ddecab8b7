"""Whether a broker may be restarted: partitions keep enough replicas in sync without it, or never could."""

from __future__ import annotations

import pytest
from tests.cluster.images import apply, image_with, registration

from qanat.cluster import keys, values
from qanat.cluster.restarts import Effect, effect_of_restart
from qanat.cluster.store import Put


def state(replicas: tuple[int, ...], in_sync: tuple[int, ...]) -> values.PartitionState:
    members = tuple(values.Member(node_id=node_id, since=1) for node_id in in_sync)
    return values.PartitionState(
        replicas=replicas, leader=in_sync[0] if in_sync else values.NO_LEADER, leader_epoch=1, in_sync=members
    )


@pytest.mark.parametrize(
    ("replicas", "in_sync", "min_in_sync", "effect"),
    [
        ((0, 1, 2), (0, 1, 2), 2, "none"),
        ((0, 1, 2), (0, 1), 2, "blocked"),
        ((0, 1, 2), (1, 2), 2, "none"),  # It is not in sync itself.
        ((0, 1, 2), (1,), 2, "blocked"),  # It must catch up, so that writes go on.
        ((0, 1, 2), (0, 1), 1, "none"),
        ((0, 1, 2), (0,), 1, "blocked"),
        ((0, 1, 2), (0, 1, 2), 3, "interrupted"),
        ((0, 1), (0, 1), 2, "interrupted"),
        ((0, 1), (0, 1), 1, "none"),
        ((0,), (0,), 1, "interrupted"),
        ((0,), (0,), 2, "interrupted"),
        ((1, 2), (1,), 2, "none"),  # It has no replica.
    ],
)
def test_the_effect_of_a_restart(
    replicas: tuple[int, ...], in_sync: tuple[int, ...], min_in_sync: int, effect: Effect
) -> None:
    assert effect_of_restart(image_with([0, 1, 2]), state(replicas, in_sync), 0, min_in_sync) == effect


def test_a_replica_on_a_broker_that_is_down_or_stopping_does_not_count() -> None:
    whole = state((0, 1, 2), (0, 1, 2))
    assert effect_of_restart(image_with([0, 1]), whole, 0, 2) == "blocked"
    image = image_with([0, 1, 2])
    leaving = values.BrokerRegistration(
        node_id=2, incarnation="i2", listeners=registration(2).listeners, is_stopping=True
    )
    apply(image, [Put(keys.broker(2), values.encode(leaving))])
    assert effect_of_restart(image, whole, 0, 2) == "blocked"

"""Where replicas should go: away from a broker, or evenly over all of them."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from qanat.app.cluster.cluster_view import PartitionView
from qanat.cluster.spreading import drained, evened


def partition(number: int, *replicas: int) -> PartitionView:
    return PartitionView("orders", number, replicas[0], replicas, replicas)


def test_a_drained_brokers_replicas_go_where_least_is() -> None:
    plan = drained([partition(0, 0, 1), partition(1, 1, 0), partition(2, 1, 2)], 0, [0, 1, 2, 3])

    assert plan == {("orders", 0): (2, 1), ("orders", 1): (1, 3)} or plan == {
        ("orders", 0): (3, 1),
        ("orders", 1): (1, 2),
    }


def test_without_another_broker_a_partition_does_with_one_fewer() -> None:
    assert drained([partition(0, 0, 1, 2)], 2, [0, 1, 2]) == {("orders", 0): (0, 1)}


def test_the_last_replica_stays() -> None:
    assert drained([partition(0, 0)], 0, [0]) == "orders-0 has no other broker to go to: start one"


def test_what_is_even_is_left_alone() -> None:
    assert evened([partition(0, 0, 1), partition(1, 1, 2), partition(2, 2, 0)], [0, 1, 2]) == {}


def test_a_broker_that_joined_gets_its_share() -> None:
    partitions = [partition(number, number % 2, (number + 1) % 2) for number in range(6)]

    plan = evened(partitions, [0, 1, 2])

    after = {one.number: plan.get(("orders", one.number), one.replicas) for one in partitions}
    load = Counter(node_id for replicas in after.values() for node_id in replicas)
    leads = Counter(replicas[0] for replicas in after.values())
    assert load == {0: 4, 1: 4, 2: 4}
    assert max(leads.values()) - min(leads.values()) <= 1


@given(st.data(), st.integers(1, 6), st.integers(0, 12))
def test_nobody_holds_a_partition_twice_and_nobody_has_two_more(data: st.DataObject, brokers: int, count: int) -> None:
    known = list(range(brokers))
    rows = [
        partition(number, *data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=brokers, unique=True)))
        for number in range(count)
    ]

    plan = evened(rows, known)

    after = [plan.get((one.topic, one.number), one.replicas) for one in rows]
    load = Counter(dict.fromkeys(known, 0))
    load.update(node_id for replicas in after for node_id in replicas)
    assert all(len(set(replicas)) == len(replicas) for replicas in after)
    assert [len(replicas) for replicas in after] == [len(one.replicas) for one in rows]
    if count:
        assert max(load.values()) - min(load.values()) <= max(1, count)


def test_no_move_puts_two_replicas_into_one_rack() -> None:
    racks = {0: "a", 1: "b", 2: "a", 3: "b"}
    rows = [partition(number, 0, 1) for number in range(8)]

    plan = evened(rows, [0, 1, 2, 3], racks)

    after = [plan.get((one.topic, one.number), one.replicas) for one in rows]
    assert all({racks[node_id] for node_id in replicas} == {"a", "b"} for replicas in after)
    assert Counter(node_id for replicas in after for node_id in replicas) == {0: 4, 1: 4, 2: 4, 3: 4}


def test_a_drained_replica_goes_into_a_rack_of_its_own_where_there_is_one() -> None:
    assert drained([partition(0, 0, 1)], 0, [0, 1, 2, 3], {0: "a", 1: "b", 2: "b", 3: "c"}) == {("orders", 0): (3, 1)}


def test_a_broker_that_joined_gets_its_share_of_every_topic() -> None:
    rows = [PartitionView(topic, number, 0, (0,), (0,)) for topic in ("a", "b", "c") for number in range(6)]

    plan = evened(rows, [0, 1])

    assert Counter(topic for topic, _ in plan) == {"a": 3, "b": 3, "c": 3}

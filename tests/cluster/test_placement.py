"""Which brokers get which replicas."""

from __future__ import annotations

from qanat.cluster.placement import place
from qanat.cluster.rejection import Rejection


def test_replicas_are_spread_over_racks() -> None:
    racks = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}

    rows = place(range(6), range(12), 3, start=1, racks=racks)

    assert not isinstance(rows, Rejection)
    assert all({racks[node_id] for node_id in row} == {"a", "b", "c"} for row in rows)
    leads = [row[0] for row in rows]
    assert all(leads.count(node_id) == 2 for node_id in range(6))


def test_a_rack_is_used_twice_only_when_every_rack_is_used() -> None:
    racks = {0: "a", 1: "a", 2: "a", 3: "b"}

    rows = place(range(4), range(4), 3, start=0, racks=racks)

    assert not isinstance(rows, Rejection)
    assert all("b" in {racks[node_id] for node_id in row} for row in rows)

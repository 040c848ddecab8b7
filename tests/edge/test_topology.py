"""Roles, parents, and which topology a node accepts."""

from __future__ import annotations

import pytest

from qanat.edge.topology import Parent, Role, Topology, is_loop, is_wanted, may_be_parent, why_refused

ROOT = Parent("root-1", "http://centre-1:8080")
IN_FORCE = Topology("l2-1", 7, Role.L2, (ROOT,))


def test_a_first_topology_is_accepted() -> None:
    assert why_refused(IN_FORCE, None, "l2-1") is None


def test_a_later_topology_replaces_the_one_in_force() -> None:
    assert why_refused(Topology("l2-1", 8, Role.L3), IN_FORCE, "l2-1") is None


def test_the_same_topology_is_accepted_again() -> None:
    assert why_refused(IN_FORCE, IN_FORCE, "l2-1") is None


@pytest.mark.parametrize(
    ("offered", "reason"),
    [
        (Topology("l2-1", 6, Role.L2, (ROOT,)), "older than 7"),
        (Topology("l2-1", 7, Role.L2), "has the same version"),
        (Topology("l2-2", 8, Role.L2), "of node 'l2-2'"),
        (Topology("l2-1", -1, Role.L2), "is none"),
        (Topology("l2-1", 8, Role.L2, (Parent("l2-1", "http://l2-1"),)), "its own parent"),
        (Topology("l2-1", 8, Role.L2, (ROOT, ROOT)), "listed twice"),
        (Topology("l2-1", 8, Role.ROOT, (ROOT,)), "ROOT has no parents"),
        (Topology("l2-1", 8, None, (ROOT,)), "without a role"),
    ],
)
def test_a_topology_that_cannot_be_is_refused_with_its_reason(offered: Topology, reason: str) -> None:
    assert reason in (why_refused(offered, IN_FORCE, "l2-1") or "")


def test_a_role_that_the_operator_did_not_set_is_refused() -> None:
    refused = why_refused(Topology("pos-1", 1, Role.ROOT), None, "pos-1", claimed=Role.POS)

    assert refused == "its role is ROOT, and this node is set up as POS"


def test_roles_feed_only_those_further_from_the_root() -> None:
    levels = [Role.ROOT, Role.L2, Role.L3, Role.POS]
    for place, upper in enumerate(levels):
        assert all(may_be_parent(upper, lower) for lower in levels[place + 1 :])
        assert not any(may_be_parent(upper, one) for one in levels[: place + 1])
    assert not may_be_parent(Role.POS, Role.LOCAL)
    assert not may_be_parent(Role.LOCAL, Role.POS)


def test_data_that_came_through_the_node_itself_is_a_loop() -> None:
    assert is_loop(("l3-1", "l2-1", "root-1"), "l2-1")
    assert not is_loop(("l2-1", "root-1"), "l3-1")


def test_topics_are_chosen_by_name_or_beginning_and_never_internal() -> None:
    assert is_wanted("prices", ("prices",))
    assert is_wanted("price-topic", ("price-*", "orders"))
    assert is_wanted("anything", ("*",))
    assert not is_wanted("orders", ("price-*",))
    assert not is_wanted("__consumer_offsets", ("*",))

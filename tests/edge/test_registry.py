"""The registry's decisions: names, roles, loops, versions."""

from __future__ import annotations

import pytest

from qanat.edge.registry import (
    NodeEntry,
    Place,
    Refusal,
    Registration,
    Why,
    assign,
    catch_up,
    register,
    retire,
    topology_of,
)
from qanat.edge.topology import Dialect, Parent, Role


def planted(*places: tuple[str, Place]) -> dict[str, NodeEntry]:
    nodes: dict[str, NodeEntry] = {}
    for name, place in places:
        found = assign(nodes, name, place)
        assert isinstance(found, NodeEntry), found
        nodes[name] = found
    return nodes


TREE = planted(
    ("root-1", Place(Role.ROOT, url="http://centre-1:8080")),
    ("l2-1", Place(Role.L2, ("root-1",), url="http://l2-1:8080")),
    ("l2-2", Place(Role.L2, ("root-1",))),
    ("l3-1", Place(Role.L3, ("l2-1", "l2-2"))),
)


def refusal(found: object) -> str:
    assert isinstance(found, Refusal), found
    return found.reason


def test_a_node_registers_and_its_place_stays_the_operators() -> None:
    found = register(TREE, Registration("l3-1", "cluster-a", "http://l3-1:8080", Role.L3))

    assert isinstance(found, NodeEntry)
    assert (found.instance, found.url, found.role, found.parents) == (
        "cluster-a",
        "http://l3-1:8080",
        Role.L3,
        ("l2-1", "l2-2"),
    )


def test_a_second_instance_does_not_get_the_name() -> None:
    nodes = {**TREE, "l3-1": NodeEntry(node="l3-1", instance="cluster-a")}

    assert "registered by another instance" in refusal(register(nodes, Registration("l3-1", "cluster-b")))


def test_a_forged_role_is_refused() -> None:
    assert "claims role ROOT" in refusal(register(TREE, Registration("l3-1", "cluster-a", None, Role.ROOT)))
    assert "no role is assigned" in refusal(register(TREE, Registration("new", "cluster-a", None, Role.ROOT)))


@pytest.mark.parametrize(
    ("node", "place", "reason"),
    [
        ("l2-1", Place(Role.L2, ("l2-1",)), "its own parent"),
        ("l2-1", Place(Role.L2, ("l3-1",)), "l3-1 is L3 and cannot be a parent of l2-1"),
        ("l2-1", Place(Role.L3, ("root-1",)), "l2-1 is a parent of l3-1, which is L3"),
        ("root-1", Place(Role.ROOT, ("l2-1",)), "a ROOT has no parents"),
        ("l3-2", Place(Role.L3, ("l2-9",)), "parent l2-9 has no role yet"),
        ("l3-2", Place(Role.L3, ("l2-1", "l2-1")), "listed twice"),
        ("l3/2", Place(Role.L3), "no name of a node"),
        ("l3-2", Place(Role.L3, url="ftp:somewhere"), "should be like http://"),
        ("l3-2", Place(Role.L3, topics=("",)), "names no topic"),
        ("l3-2", Place(Role.L3, topics=("sales:",)), "no key to filter by"),
    ],
)
def test_a_place_that_breaks_the_tree_is_refused(node: str, place: Place, reason: str) -> None:
    assert reason in refusal(assign(TREE, node, place))


def test_a_loop_over_entries_of_a_restored_store_is_found() -> None:
    nodes = {
        "a": NodeEntry(node="a", role=Role.L2, parents=("b",)),
        "b": NodeEntry(node="b", role=Role.ROOT, parents=("c",)),
    }

    assert "that would be a loop" in refusal(assign(nodes, "c", Place(Role.L3, ("a",))))


def test_a_parent_is_retired_only_by_force_and_leaves_its_children() -> None:
    assert "l2-1 is a parent of l3-1" in refusal(retire(TREE, "l2-1"))
    changed = retire(TREE, "l2-1", is_forced=True)

    assert not isinstance(changed, Refusal)
    assert [(one.node, one.parents) for one in changed] == [("l3-1", ("l2-2",))]
    unknown = retire(TREE, "nobody")
    assert isinstance(unknown, Refusal)
    assert unknown.why is Why.UNKNOWN


def test_a_topology_names_the_parents_that_can_be_reached_in_order() -> None:
    found = topology_of(TREE, {"root-1": 3, "l2-1": 9, "l2-2": 5, "l3-1": 6}, "l3-1")

    assert found is not None
    assert found.parents == (Parent("l2-1", "http://l2-1:8080", Dialect.BATCHES),)
    assert found.version == 9  # That of the newest entry that it was made from.


def test_a_restored_registry_goes_on_above_what_the_node_has_seen() -> None:
    revisions = {"root-1": 3, "l2-1": 4, "l2-2": 5, "l3-1": 6}
    found = topology_of(TREE, revisions, "l3-1")
    assert found is not None
    assert catch_up(TREE["l3-1"], found, seen=6) is None

    ahead = catch_up(TREE["l3-1"], found, seen=40)

    assert ahead is not None
    later = topology_of({**TREE, "l3-1": ahead}, {**revisions, "l3-1": 7}, "l3-1")
    assert later is not None
    assert later.version > 40

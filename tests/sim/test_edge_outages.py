"""Long outages of a simulated tree, each by itself: a registry is away for a day, a node is offline for a week."""

from __future__ import annotations

from random import Random

import pytest
from verify.edge import checker
from verify.edge.child import Child
from verify.edge.origin import Origin
from verify.edge.tree import Registry
from verify.edge.world import World

from qanat.edge.mirror import OnGap
from qanat.edge.registry import Place
from qanat.edge.topology import Role

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
PARTITIONS = 2


class Tree:
    """A root, a node below it, and one below that, which has an outbox as well."""

    def __init__(self, seed: int) -> None:
        self.world = World(Random(f"outage {seed}"))
        self.root = Origin(self.world, "root", PARTITIONS)
        self.registry = Registry(self.world)
        self.middle = Child(self.world, "l2-0", PARTITIONS, OnGap.STOP, sends_up=False)
        self.leaf = Child(self.world, "pos-0", PARTITIONS, OnGap.STOP, sends_up=True)
        self.nodes: dict[str, Child | Origin] = {"root": self.root, "l2-0": self.middle, "pos-0": self.leaf}
        self.registry.place("root", Place(Role.ROOT, url="http://centre:8080"))
        self._sold = 0
        for child, role, parents in ((self.middle, Role.L2, ("root",)), (self.leaf, Role.POS, ("l2-0", "root"))):
            self.registry.place(child.name, Place(role, parents))
            self.registry.register(child.name, f"instance of {child.name}", None)
            self.boot(child)
        self.pass_time(MINUTE_MS)

    def boot(self, child: Child) -> None:
        child.boot(self.registry, self.nodes)

    def pass_time(self, span_ms: int, step_ms: int = HOUR_MS) -> None:
        """Records are written at the root, and sold at the leaf while it runs."""
        until = self.world.now_ms + span_ms
        while self.world.now_ms < until:
            for number in range(PARTITIONS):
                self.root.produce(number)
                self.root.commit(number)
            if self.leaf.process is not None:
                self._sold += 1
                self.leaf.process.accept_record(self._sold)
            self.world.run_until(min(until, self.world.now_ms + step_ms))

    def check(self) -> None:
        """Everything is everywhere."""
        for child in (self.middle, self.leaf):
            checker.check_child(self.root, child, lambda _: ())
            assert all(len(log.batches) > 0 for log in child.disk.logs)
        checker.check_up(self.root, self.leaf, is_over=True)
        assert len(self.root.target("pos-0").records) == self._sold > 0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_c85_a_node_that_restarts_while_the_registry_is_away_for_a_day_follows_its_kept_place(seed: int) -> None:
    tree = Tree(seed)
    tree.registry.life += 1
    asked_until = tree.leaf.disk.topology
    tree.pass_time(6 * HOUR_MS)
    tree.leaf.kill(is_power=True)
    tree.pass_time(HOUR_MS)
    tree.boot(tree.leaf)
    tree.pass_time(17 * HOUR_MS)
    tree.world.run_until(tree.world.now_ms + MINUTE_MS)

    assert tree.leaf.disk.topology == asked_until is not None
    tree.check()
    tree.registry.place("pos-0", Place(Role.POS, ("root",)))
    tree.registry.life += 1
    tree.pass_time(15 * MINUTE_MS, MINUTE_MS)  # Simulated nodes ask every five minutes.
    tree.world.run_until(tree.world.now_ms + MINUTE_MS)
    assert tree.leaf.process is not None
    assert tree.leaf.process.choice.current is not None
    assert tree.leaf.process.choice.current.node == "root"
    tree.check()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_c85_a_node_that_is_offline_for_a_week_has_everything_minutes_later(seed: int) -> None:
    tree = Tree(seed)
    before = [log.end_offset for log in tree.leaf.disk.logs]
    for other in ("root", "l2-0", "registry"):
        tree.world.cut("pos-0", other)
    tree.pass_time(3 * DAY_MS)
    tree.leaf.kill(is_power=seed % 2 == 0)
    tree.boot(tree.leaf)
    tree.pass_time(4 * DAY_MS)

    assert [log.end_offset for log in tree.leaf.disk.logs] == before
    assert len(tree.root.target("pos-0").records) < 10
    tree.world.heal_all()
    tree.world.run_until(tree.world.now_ms + 5 * MINUTE_MS)
    tree.check()

"""One seed: a tree of three levels, events and faults in an order that the seed draws, then healing and the checks."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from qanat.edge.mirror import OnGap
from qanat.edge.registry import Place
from qanat.edge.topology import Role
from verify.edge import checker
from verify.edge.child import Child
from verify.edge.origin import Origin
from verify.edge.tree import Registry
from verify.edge.world import EdgeMismatchError, World

STEPS = 150
_SECOND, _HOUR, _DAY = 1_000, 3_600_000, 86_400_000
_LONG_CUTS_MAX = 1
_HEALING_MS = 30 * 60 * _SECOND


class EdgeRun:
    """The world of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = draw = Random(f"edge {seed}")
        self.world = World(draw)
        partitions = draw.randint(1, 2)
        self.root = Origin(self.world, "root", partitions)
        self.registry = Registry(self.world)
        self.children: dict[str, Child] = {}
        self._roles = {"root": Role.ROOT}
        for name, role, up in (
            *((f"l2-{number}", Role.L2, False) for number in range(draw.randint(1, 2))),
            *((f"l3-{number}", Role.L3, draw.random() < 0.5) for number in range(draw.randint(1, 2))),
            *((f"pos-{number}", Role.POS, True) for number in range(draw.randint(0, 2))),
        ):
            on_gap = draw.choice(list(OnGap))
            self.children[name] = Child(self.world, name, partitions, on_gap, sends_up=up)
            self._roles[name] = role
        self.nodes: dict[str, Child | Origin] = {"root": self.root, **self.children}
        self._value = 0
        weights: list[tuple[Callable[[], None], float]] = [
            (self._produce, 30),
            (self._commit, 20),
            (self._write_up, 15),
            (self._fail_over, draw.choice([0, 2])),
            (self._elect_unclean, draw.choice([0, 0, 2])),
            (self._retain, draw.choice([0, 2, 5])),
            (self._cut, draw.choice([0, 5, 8])),
            (self._cut_for_days, draw.choice([0, 0, 2])),
            (self._heal, 6),
            (self._shape, draw.choice([0, 3])),
            (self._kill, draw.choice([0, 4])),
            (self._kill_root, draw.choice([0, 1])),
            (self._boot, 10),
            (self._move, draw.choice([0, 3])),
            (self._misplace, draw.choice([0, 2])),
            (self._registry_away, draw.choice([0, 1])),
            (self._registry_restored, draw.choice([0, 1])),
            (self._impostor, draw.choice([0, 1])),
        ]
        self._acts = [act for act, _ in weights]
        self._weights = [weight for _, weight in weights]
        self._is_dying = draw.random() < 0.4
        self._up_random = Random(f"edge up {seed}")
        self._remaking = self._up_random.choice([0, 0, 0, 0.02])

    def run(self) -> None:
        """Raise `EdgeMismatchError` where anything does not hold."""
        self._plant()
        for _ in range(STEPS):
            self._random.choices(self._acts, self._weights)[0]()
            self.world.run_until(self.world.now_ms + self._pause_ms())
            if self._up_random.random() < self._remaking:
                self._remake_target()
            for child in self.children.values():
                checker.check_up(self.root, child, is_over=False)
        self._recover()
        self._check_children()
        self._go_on_where_stopped()
        self._check_children()
        for child in self.children.values():
            if child.sends_up:
                checker.check_up(self.root, child, is_over=True)
        self._lose_a_parent()

    def _check_children(self) -> None:
        for child in self.children.values():
            checker.check_child(self.root, child, self._above)

    def _above(self, child: Child) -> list[Child]:
        """The children that a node's records come through."""
        path = () if child.process is None else child.process.path
        return [self.children[name] for name in path if name in self.children]

    def _pause_ms(self) -> int:
        kind = self._random.random()
        most = 200 if kind < 0.5 else 20 * _SECOND if kind < 0.9 else 5 * 60 * _SECOND
        return self._random.randint(1, most)

    def _plant(self) -> None:
        """The operator places every node; the nodes register and boot."""
        self.registry.place("root", Place(Role.ROOT, url="http://centre:8080"))
        for name, child in self.children.items():
            self.registry.place(name, Place(self._roles[name], self._parents(name)))
            self.registry.register(name, f"instance of {name}", None)
            child.boot(self.registry, self.nodes)
        self.registry.back_up()

    def _parents(self, name: str) -> tuple[str, ...]:
        levels = {Role.ROOT: 0, Role.L2: 1, Role.L3: 2, Role.POS: 3, Role.LOCAL: 3}
        level = levels[self._roles[name]]
        above = [one for one, role in self._roles.items() if levels[role] < level]
        nearest = [one for one in above if levels[self._roles[one]] == level - 1] or above
        pool = nearest if self._random.random() < 0.7 else above
        if not pool:
            return ()
        return tuple(self._random.sample(pool, self._random.randint(1, min(3, len(pool)))))

    # Events

    def _produce(self) -> None:
        for _ in range(self._random.randint(1, 5)):
            self.root.produce(self._random.randrange(len(self.root.logs)))

    def _commit(self) -> None:
        self.root.commit(self._random.randrange(len(self.root.logs)))

    def _write_up(self) -> None:
        senders = [one for one in self.children.values() if one.sends_up and one.process is not None]
        if senders:
            sender = self._random.choice(senders)
            for _ in range(self._random.randint(1, 6)):
                self._value += 1
                assert sender.process is not None
                sender.process.accept_record(self._value)

    def _fail_over(self) -> None:
        self.world.note("failover at the root")
        self.root.elect(self._random.randrange(len(self.root.logs)), is_unclean=False)

    def _elect_unclean(self) -> None:
        self.world.note("unclean election at the root")
        self.root.elect(self._random.randrange(len(self.root.logs)), is_unclean=True)

    def _retain(self) -> None:
        self.world.note("retention")
        node = self._random.choice(list(self.nodes.values()))
        number = self._random.randrange(len(self.root.logs))
        if isinstance(node, Origin):
            node.retain(number)
        else:
            log = node.disk.logs[number]
            if log.flushed - log.start > 4:
                log.retain_from(log.start + self._random.randint(1, log.flushed - log.start - 1))

    def _pair(self) -> tuple[str, str]:
        one, other = self._random.sample([*self.nodes, "registry"], 2)
        return one, other

    def _cut(self) -> None:
        self.world.note("cut")
        self.world.cut(*self._pair(), is_one_way=self._random.random() < 0.3)

    def _cut_for_days(self) -> None:
        if self.world.faults.get("cut of days", 0) >= _LONG_CUTS_MAX:
            return
        self.world.note("cut of days")
        name = self._random.choice(list(self.children))
        for other in [*self.nodes, "registry"]:
            if other != name:
                self.world.cut(name, other)
        until = self.world.now_ms + self._random.choice([_HOUR, 12 * _HOUR, 2 * _DAY])
        while self.world.now_ms < until:
            self._random.choice([self._produce, self._commit, self._write_up, self._commit])()
            self.world.run_until(self.world.now_ms + self._random.randint(_HOUR // 2, 6 * _HOUR))

    def _heal(self) -> None:
        for other in [*self.nodes, "registry"]:
            self.world.heal(self._random.choice(list(self.children)), other)

    def _shape(self) -> None:
        self.world.note("slow link")
        one, other = self._pair()
        link = self.world.link((one, other))
        link.rate_bytes_per_s = self._random.choice([0, 6_250, 1_000, 100_000])
        link.loss = self._random.choice([0, 0.02, 0.2])
        link.delay_s = self._random.choice([0.002, 0.3, 2.0])

    def _kill(self) -> None:
        child = self._random.choice(list(self.children.values()))
        is_power = self._random.random() < 0.5
        self.world.note("power loss" if is_power else "kill")
        child.kill(is_power=is_power)

    def _remake_target(self) -> None:
        self.world.note("target made again")
        name = self._up_random.choice(list(self.children))
        self.root.remake_target(name, keeps_mark=self._up_random.random() < 0.5)

    def _kill_root(self) -> None:
        self.world.note("kill of the root")
        self.root.restart()

    def _boot(self) -> None:
        for child in self.children.values():
            child.dies = 0.02 if self._is_dying else 0.0
            if child.process is None:
                child.boot(self.registry, self.nodes)

    def _move(self) -> None:
        self.world.note("move")
        name = self._random.choice(list(self.children))
        self.registry.place(name, Place(self._roles[name], self._parents(name)))

    def _misplace(self) -> None:
        """An operator's mistake: any role, any parents. Where it is taken, the tree is one all the same."""
        self.world.note("mistaken move")
        name = self._random.choice(list(self.children))
        role = self._random.choice(list(Role))
        parents = tuple(self._random.choices(list(self.nodes), k=self._random.randint(0, 3)))
        if self.registry.place(name, Place(role, parents)):
            self._roles[name] = role

    def _impostor(self) -> None:
        self.world.note("impostor")
        name = self._random.choice(list(self.children))
        if self.registry.register(name, "a copied machine", None):
            raise EdgeMismatchError(f"a second instance got the name {name}")
        if self.registry.register(name, f"instance of {name}", Role.ROOT) and self._roles[name] is not Role.ROOT:
            raise EdgeMismatchError(f"{name} made itself ROOT")

    def _registry_away(self) -> None:
        self.world.note("registry away")
        self.registry.life += 1 if self.registry.is_up or self._random.random() < 0.7 else 0

    def _registry_restored(self) -> None:
        self.world.note("registry restored")
        if self._random.random() < 0.4:
            self.registry.back_up()
        else:
            self.registry.restore()

    # The end

    def _recover(self) -> None:
        """No more faults: everything must arrive."""
        self.world.heal_all()
        if not self.registry.is_up:
            self.registry.life += 1
        for name in self.children:
            self._roles[name] = Role.LOCAL
        self._replant()
        self._boot()
        for child in self.children.values():
            child.dies = 0.0
            child.resends = True
        for _ in range(3):
            self._write_everywhere()

    def _go_on_where_stopped(self) -> None:
        """The operator decides where partitions wait for records that no parent has any more: nothing stays behind."""
        if not any(child.process is not None and child.process.stopped for child in self.children.values()):
            return
        self.world.note("gap skipped by the operator")
        for child in self.children.values():
            child.on_gap = OnGap.SKIP if child.on_gap is OnGap.STOP else child.on_gap
        self.world.run_until(self.world.now_ms + 2 * _HEALING_MS)

    def _lose_a_parent(self) -> None:
        """A parent is down for good: whoever has another one goes on there."""
        names = list(self.children)
        self.children[names[1]].kill(is_power=True)
        self._write_everywhere()
        for name in names[3:]:
            checker.check_child(self.root, self.children[name], self._above)

    def _write_everywhere(self) -> None:
        for number in range(len(self.root.logs)):
            self.root.produce(number)
            self.root.commit(number)
        self.world.run_until(self.world.now_ms + _HEALING_MS)

    def _replant(self) -> None:
        """A tree of three levels again, whatever mistakes and restored copies have left."""
        names = list(self.children)
        for name in names * len(names):  # A parent becomes a leaf only after its children have left it.
            self.registry.place(name, Place(Role.LOCAL))
        for place, name in enumerate(names):
            role = Role.L2 if place == 0 else Role.L3 if place == 1 else Role.LOCAL
            parents = ("root",) if place == 0 else (names[place - 1],) if place < 3 else (names[1], "root")
            if not self.registry.place(name, Place(role, parents)):
                raise EdgeMismatchError(f"{name} cannot be placed as {role.value} below {parents}")

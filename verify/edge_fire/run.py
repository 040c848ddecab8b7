"""One run: a tree of three levels, faults one after the other by a seed, healing, and the judgement.

Records go down from the root, and up from an outbox of the last level, to the parent that it has or over the outbox of
the middle. What goes up over two ways is in order on each, not of both together.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from verify.chaos.network import Direction, Network, both_directions
from verify.edge_fire.judgement import Level, Span, different, judge
from verify.edge_fire.nodes import EdgeBroker
from verify.edge_fire.traffic import Reader, Writer

TOPIC, PARTITIONS = "prices", 3
OUTBOX, TARGET = "sales", "all-sales"
UP = "up"
"""The name of the way up among the levels."""
_SALES_SHARE = 0.2
_FAULT_EVERY_S = (5.0, 60.0)
_CUT_S = (1.0, 20.0)
_HEALING_S = 120.0
_TREE = {"l2": ["root"], "pos": ["l2", "root"]}
_ROLES = {"root": "ROOT", "l2": "L2", "pos": "POS"}


@dataclass
class Outcome:
    """What a run has shown."""

    seconds: float
    records: int
    faults: Counter[str]
    levels: list[Level]
    problems: list[str] = field(default_factory=list)

    def report(self) -> str:
        faults = ", ".join(f"{count} x {what}" for what, count in sorted(self.faults.items()))
        lines = [f"{self.records} records promised in {self.seconds:.0f} s; {faults}"]
        lines += [f"  {level.described()}" for level in self.levels]
        lines += [f"  {problem}" for problem in self.problems]
        return "\n".join([*lines, f"  {len(self.problems) or 'no'} problems"])


class Fire:
    """The tree, its traffic and its faults."""

    def __init__(self, folder: Path, network: Network, seed: int, per_second: float) -> None:
        self._draw = Random(f"edge fire {seed}")
        self._network = network
        root = EdgeBroker("root", folder, network, "")
        below = {name: EdgeBroker(name, folder, network, root.url) for name in _TREE}
        self.brokers = {"root": root, **below}
        self._per_second = per_second
        self._disturbed: dict[str, list[Span]] = {name: [] for name in (*_TREE, UP)}
        self._faults: Counter[str] = Counter()

    def run(self, seconds: float) -> Outcome:
        began = time.monotonic()
        self._plant()
        root = self.brokers["root"]
        readers = {name: Reader(self.brokers[name].address, TOPIC, PARTITIONS, name) for name in _TREE}
        readers[UP] = Reader(root.address, TARGET, 1, UP)
        writer = Writer(root.address, TOPIC, PARTITIONS, self._per_second)
        till = Writer(self.brokers["pos"].address, OUTBOX, 1, self._per_second * _SALES_SHARE)
        of = {name: till if name == UP else writer for name in readers}
        for thread in (*readers.values(), writer, till):
            thread.start()
        self._burn(began + seconds)
        writer.end()
        till.end()
        _wait_until(
            lambda: all(len(one.arrived_s) >= sum(of[name].acknowledged) for name, one in readers.items()),
            is_needed=False,
        )
        for reader in readers.values():
            reader.end()
        levels = [judge(name, of[name], reader, self._disturbed[name]) for name, reader in readers.items()]
        levels = [replace(one, disorder=0) if one.name == UP else one for one in levels]
        problems = [problem for level in levels for problem in level.problems()] + self._differences()
        promised = sum(writer.acknowledged) + sum(till.acknowledged)
        return Outcome(time.monotonic() - began, promised, self._faults, levels, problems)

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.kill()

    def _plant(self) -> None:
        """The topics, the places of all nodes, a mirror at every level, and the outboxes."""
        root = self.brokers["root"]
        root.start()
        root.need("POST", "/api/v1/topics", {"name": TOPIC, "partitions": PARTITIONS})
        root.need("POST", "/api/v1/topics", {"name": TARGET, "partitions": 1})
        for name in _ROLES:
            self._place(name, _TREE.get(name, []))
        for name in _TREE:
            self.brokers[name].start()
            _wait_until(lambda name=name: self.brokers[name].call("GET", f"/api/v1/topics/{TOPIC}")[0] == 200)  # type: ignore[misc]
        for name, outbox in (("l2", TARGET), ("pos", OUTBOX)):
            configs = {"up.target": TARGET}
            self.brokers[name].need("POST", "/api/v1/topics", {"name": outbox, "partitions": 1, "configs": configs})

    def _place(self, name: str, parents: list[str]) -> None:
        place = {"role": _ROLES[name], "parents": parents, "topics": [TOPIC], "url": self.brokers[name].url}
        self.brokers["root"].need("PUT", f"/api/v1/edge/nodes/{name}", place)

    # Faults

    def _burn(self, end_s: float) -> None:
        faults = [(self._cut, 6), (self._cut_one_way, 2), (self._kill, 1), (self._move, 1)]
        acts, weights = zip(*faults, strict=True)
        while True:
            pause_s = self._draw.uniform(*_FAULT_EVERY_S)
            if time.monotonic() + pause_s + _CUT_S[1] > end_s:
                time.sleep(max(0.0, end_s - time.monotonic()))
                return
            time.sleep(pause_s)
            self._draw.choices(acts, weights)[0]()

    def _cut(self) -> None:
        name = self._draw.choice(list(_TREE))
        self._faults[f"cut of {name}"] += 1
        self._hold(both_directions(name, self._others(name)), _touched(name))

    def _cut_one_way(self) -> None:
        name = self._draw.choice(list(_TREE))
        self._faults[f"cut of {name}, one way"] += 1
        ways = [(other, name) for other in self._others(name)]
        if self._draw.random() < 0.5:
            ways = [(there, here) for here, there in ways]
        self._hold(ways, _touched(name))

    def _others(self, name: str) -> list[str]:
        return [other for other in self.brokers if other != name]

    def _hold(self, ways: list[Direction], touched: list[str]) -> None:
        began = time.monotonic()
        self._network.cut(ways)
        time.sleep(self._draw.uniform(*_CUT_S))
        self._network.join(ways)
        for name in touched:
            self._disturbed[name].append((began, time.monotonic()))

    def _kill(self) -> None:
        name = self._draw.choice(list(self.brokers))
        self._faults[f"kill -9 of {name}"] += 1
        began = time.monotonic()
        self.brokers[name].kill()
        time.sleep(self._draw.uniform(0, 3))
        self.brokers[name].start()
        ended = time.monotonic()
        for touched in _touched(name):
            # Pauses of a child that is refused double: the next attempt comes within as long again.
            self._disturbed[touched].append((began, ended if touched == name else 2 * ended - began))

    def _move(self) -> None:
        """Another parent for the last level; nothing is disturbed by that."""
        self._faults["move of pos"] += 1
        self._place("pos", self._draw.choice([["root"], ["l2"], ["l2", "root"], ["root", "l2"]]))

    # The end

    def _differences(self) -> list[str]:
        root = self.brokers["root"].bytes_of(TOPIC)
        found = [] if root else ["the root has no partitions"]
        for name in _TREE:
            found += different(name, root, self.brokers[name].bytes_of(TOPIC))
        for name, broker in self.brokers.items():
            if count := broker.tracebacks():
                found.append(f"{name}: {count} stack traces in {broker.log}")
        return found


def _touched(name: str) -> list[str]:
    """Whom a fault of a node keeps waiting: the levels from it on, and the way up."""
    names = list(_ROLES)
    return [*(one for one in names[names.index(name) :] if one in _TREE), UP]


def _wait_until(holds: Callable[[], bool], *, is_needed: bool = True) -> None:
    deadline = time.monotonic() + _HEALING_S
    while not holds():
        if time.monotonic() > deadline:
            if is_needed:
                raise RuntimeError(f"the tree is not ready after {_HEALING_S:.0f} s")
            return
        time.sleep(0.2)

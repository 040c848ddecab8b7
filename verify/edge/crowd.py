"""Ten thousand nodes that reconnect to one broker at once, which is their registry and parent: cores in virtual time.

Each node is a `Backoff` for the registry and a `ParentChoice` for the pipe, as in the broker's shell; the core of the
registry decides about every registration. The broker answers one request after the other, and each takes what it costs
by measurement (`bench.edge`). What waits too long is given up, and asked for again, which costs the broker once more.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec import Struct

from qanat.edge import registry
from qanat.edge.backoff import Backoff
from qanat.edge.parents import SILENT_PAUSE_MS, ParentChoice
from qanat.edge.registry import NodeEntry, Place, Refusal, Registration
from qanat.edge.topology import Parent, Role
from verify.edge.world import Act, Machine, World

COST_MS = 0.3
"""Of one request at the broker; `bench.edge` measures 0.2."""
ROUND_TRIP_MS = 50
SILENCE_MS = 10_000
"""How long a node waits for an answer that is due."""
DIAL_MS = 2_000
PARKED_MS, TOPOLOGY_PARKED_MS = 5_000, 25_000


class Outage(Struct, frozen=True):
    """What went before: how long the broker was away, and whether it was silent or refused connections."""

    seconds: int
    is_silent: bool


class Broker(Machine):
    """Registry and parent: one request at a time."""

    def __init__(self, world: World) -> None:
        super().__init__("root-1")
        self._world = world
        self._free_ms = 0.0
        self.busy_ms = 0.0
        self.requests = 0
        self.nodes: dict[str, NodeEntry] = {}
        self.revisions: dict[str, int] = {}
        self._put(_decided(registry.assign({}, "root-1", Place(Role.ROOT, url="http://centre:8080"))))

    def _put(self, entry: NodeEntry) -> None:
        self.revisions[entry.node] = self.revisions.get(entry.node, 0) + (self.nodes.get(entry.node) != entry)
        self.nodes[entry.node] = entry

    def place(self, name: str) -> None:
        entry = NodeEntry(node=name, role=Role.POS, parents=("root-1",))
        self._put(_decided(registry.register({name: entry}, Registration(name, f"instance of {name}"))))

    def ask(self, parked_ms: int, done: Act) -> None:
        """Have a request answered after those before it, and after its time in the park."""
        now_ms = self._world.now_ms
        self._free_ms = max(self._free_ms, float(now_ms)) + COST_MS
        self.busy_ms += COST_MS
        self.requests += 1
        self._world.after(round(self._free_ms - now_ms) + parked_ms + ROUND_TRIP_MS, done, self)

    def register(self, name: str) -> None:
        """A node that returns changes nothing."""
        found = _decided(registry.register(self.nodes, Registration(name, f"instance of {name}")))
        assert found == self.nodes[name], "a registered node has changed by coming back"
        topology = registry.topology_of(self.nodes, self.revisions, name)
        assert topology is not None
        assert [one.node for one in topology.parents] == ["root-1"]


def _decided(found: NodeEntry | Refusal) -> NodeEntry:
    assert not isinstance(found, Refusal), found
    return found


class Edge:
    """One node: what it asks of the registry, and of its parent, and when again."""

    def __init__(self, crowd: Crowd, name: str) -> None:
        draw = crowd.random.random
        self._crowd, self._world, self._broker = crowd, crowd.world, crowd.broker
        self.name = name
        self._backoff = Backoff(draw)
        self._choice = ParentChoice((Parent("root-1", "http://centre:8080"),), draw, crowd.world.now_ms)
        self.is_registered = self.has_pipe = self.is_up = False
        self.gave_up = 0

    def start(self) -> None:
        self._register()
        self._pipe()

    def _request(self, parked_ms: int, done: Act, failed: Callable[[bool], None]) -> None:
        """Ask the broker; `failed` is told whether it was silent."""
        if not self._broker.is_up:
            self._dial(failed, self._world.now_ms, lambda: self._request(parked_ms, done, failed))
            return
        settled: list[None] = []

        def answered() -> None:
            if not settled:
                settled.append(None)
                done()

        def gave_up() -> None:
            if not settled:
                settled.append(None)
                self.gave_up += 1
                failed(True)

        self._broker.ask(parked_ms, answered)
        self._world.after(parked_ms + SILENCE_MS, gave_up)

    def _dial(self, failed: Callable[[bool], None], began_ms: int, again: Act) -> None:
        """A silent broker is dialled every two seconds for ten; one that refuses says so at once."""
        if not self._crowd.outage.is_silent:
            self._world.after(ROUND_TRIP_MS, lambda: failed(False))
        elif self._world.now_ms - began_ms >= SILENCE_MS:
            failed(True)
        elif self._broker.is_up:
            again()
        else:
            self._world.after(DIAL_MS, lambda: self._dial(failed, began_ms, again))

    # The registry

    def _register(self) -> None:
        self._request(0, self._registered, lambda _: self._world.after(self._backoff.failed(), self._register))

    def _registered(self) -> None:
        self._broker.register(self.name)
        self._backoff.succeeded()
        self.is_registered = True
        self._crowd.note_up(self)
        self._follow()

    def _follow(self) -> None:
        """Ask for a later topology, for ever."""
        again = self._backoff.failed
        self._request(TOPOLOGY_PARKED_MS, self._follow, lambda _: self._world.after(again(), self._register))

    # The pipe

    def _pipe(self) -> None:
        self._request(0, self._pull, self._pipe_failed)

    def _pull(self) -> None:
        """The parent's topics are known: the first pull is parked, or answered."""
        self.has_pipe = True
        self._crowd.note_up(self)
        self._request(PARKED_MS, self._pulled, self._pipe_failed)

    def _pulled(self) -> None:
        """Nothing is new, and the parent's topics are those of before."""
        self._choice.succeeded(self._world.now_ms)
        self._pull()

    def _pipe_failed(self, is_silent: bool) -> None:
        pause_ms = self._choice.failed(self._world.now_ms, is_silent=is_silent)
        assert not is_silent or pause_ms <= SILENT_PAUSE_MS
        self._world.after(pause_ms, self._pipe)


class Crowd:
    """The nodes and their broker. `run` until all are up."""

    def __init__(self, seed: int, count: int, outage: Outage) -> None:
        self.random = Random(f"crowd {seed}")
        self.world = World(self.random)
        self.outage = outage
        self.broker = Broker(self.world)
        self.edges = [Edge(self, f"pos-{number}") for number in range(count)]
        for edge in self.edges:
            self.broker.place(edge.name)
        self._left = count
        self.all_up_ms = -1

    def note_up(self, edge: Edge) -> None:
        if edge.is_registered and edge.has_pipe and not edge.is_up:
            edge.is_up = True
            self._left -= 1
            if self._left == 0:
                self.all_up_ms = self.world.now_ms

    def run(self) -> float:
        """Seconds from the broker's return until every node is up."""
        for edge in self.edges:
            edge.start()
        self.world.run_until(self.outage.seconds * 1000)
        self.broker.life += 1
        while self.all_up_ms < 0:
            self.world.run_until(self.world.now_ms + 1_000)
            assert self.world.now_ms < (self.outage.seconds + 600) * 1000, f"{self._left} nodes are not up"
        return (self.all_up_ms - self.outage.seconds * 1000) / 1000

    def idle_share(self, seconds: int = 20) -> float:
        """Cores of the broker while nothing happens."""
        before = self.broker.busy_ms
        self.world.run_until(self.world.now_ms + seconds * 1000)
        return (self.broker.busy_ms - before) / (seconds * 1000)

"""ACLs inside the machines of a simulated cluster, compared with those of the store by an observer who sees both.

- A broker that has started has the rules of the store (no rule lost, none resurrected: the class of CVE-2024-27309).
- A broker whose watch is current has every change within `IN_FORCE_S`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from qanat.adapters.memory_store import MemoryStore
from qanat.cluster import keys
from qanat.cluster.store import Delete, Operation, Put
from qanat.testing.simulation.loop import SimLoop
from verify.clusters.machine import RECONCILE_S, Machine

IN_FORCE_S = 1.0
"""How long a change may take to reach a broker whose watch is current; documented."""
_REJOIN_S = 2.0
"""How long a watch takes to continue when the store can be reached again: a request that fails, a pause, a request."""


class _Sight(Struct):
    """How well a machine sees the store."""

    process: int = -1
    """The start that it was seen with last."""
    troubled_s: float = 0.0
    """When it last could not see the store, as far as the observer knows."""
    gaps: int = 0
    has_gap: bool = False
    """Whether its watch has missed a change, and no comparison can have made that good."""


class AclObserver:
    """Compares rules by their keys, which are digests of the rules."""

    def __init__(self, loop: SimLoop, machines: list[Machine], truth: MemoryStore) -> None:
        self._loop = loop
        self._machines = machines
        self._truth = truth
        self._states: list[tuple[float, frozenset[str]]] = [(0.0, frozenset())]
        """The rules of the store, with the times since which it has them."""
        self._sights: dict[int, _Sight] = {}

    def note_stored(self, operations: Sequence[Operation]) -> None:
        """The store has taken a commit."""
        named = [one.key for one in operations if isinstance(one, Put | Delete) and one.key.startswith(keys.ACLS)]
        if named:
            there = {key for key in named if self._truth.peek(key) is not None}
            present = self._states[-1][1].difference(named) | there
            self._states.append((self._loop.time(), present))

    def has(self, key: str) -> bool:
        """Whether the store has this rule."""
        return key in self._states[-1][1]

    def started(self, machine: Machine) -> list[str]:
        """What is wrong with the rules of a broker that has just started."""
        if machine.store.gaps != machine.gaps_at_start or self._is_any_of_these(machine, machine.start_s):
            return []
        return [f"{machine.host} starts with other ACLs than the store has: {self._difference(machine)}"]

    def look(self) -> list[str]:
        """What is wrong now; called many times a second."""
        now = self._loop.time()
        return [
            f"{machine.host} has other ACLs than the store had {IN_FORCE_S} s ago or later: {self._difference(machine)}"
            for machine in self._machines
            if self._is_current(machine) and not self._is_any_of_these(machine, now - IN_FORCE_S)
        ]

    @property
    def all_are_current(self) -> bool:
        return all(map(self._is_current, self._machines))

    def _is_current(self, machine: Machine) -> bool:
        """Whether the watch of a machine has had the time to deliver everything."""
        now, store = self._loop.time(), machine.store
        sight = self._sights.setdefault(machine.node_id, _Sight())
        if machine.node is None or sight.process != machine.starts:
            sight.process, sight.has_gap, sight.gaps, sight.troubled_s = machine.starts, False, store.gaps, now
        if not machine.is_up or machine.owner.is_paused or store.is_cut or store.is_mute or store.lost_changes:
            sight.troubled_s = now
        if store.gaps != sight.gaps:
            sight.gaps, sight.has_gap, sight.troubled_s = store.gaps, True, now
        if sight.has_gap and now - sight.troubled_s > RECONCILE_S + _REJOIN_S:
            sight.has_gap = False
        return not sight.has_gap and now - sight.troubled_s > _REJOIN_S

    def _is_any_of_these(self, machine: Machine, since_s: float) -> bool:
        """Whether the machine has the rules that the store has had at some time since then."""
        assert machine.node is not None
        ours = frozenset(machine.node.broker.metadata.image.acls)
        for begun_s, state in reversed(self._states):
            if ours == state:
                return True
            if begun_s <= since_s:
                return False
        return False

    def _difference(self, machine: Machine) -> str:
        assert machine.node is not None
        ours, true = frozenset(machine.node.broker.metadata.image.acls), self._states[-1][1]
        return f"{len(true - ours)} missing, {len(ours - true)} too many"

"""The registry's entries: in the metadata store, with a copy that follows it, and requests that wait for a change.

Rule 1: a change is decided on the copy and committed with a compare per entry that it read or writes; where another
        broker was faster, the copy catches up and the change is decided again.
Rule 2: the copy is made with the first request: a broker that is no registry lists and watches nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

import msgspec

from qanat.broker.runtime.parked_tasks import TaskOwner
from qanat.cluster.store import (
    Absent,
    Changes,
    Compare,
    Delete,
    EventKind,
    MetadataStore,
    ModifiedAt,
    Operation,
    Put,
    Refused,
    Revision,
)
from qanat.edge.node_state import NodeState
from qanat.edge.registry import NodeEntry, Refusal, Why, catch_up, retire, topology_of
from qanat.edge.topology import Topology
from qanat.model.errors import StoreUnavailableError
from qanat.telemetry.events import log_event

NODES = "/qanat/edge/nodes/"
_ATTEMPTS_MAX = 10
_CHILDREN_AT_ONCE = 90
_RETRY_S = 1.0
_ENTRIES = msgspec.json.Decoder(NodeEntry)
BUSY = Refusal(Why.CONFLICT, "others keep changing the tree; try again")


class EdgeRegistry:
    """The tree, as this broker knows it."""

    def __init__(self, store: MetadataStore, tasks: TaskOwner) -> None:
        self._store = store
        self._tasks = tasks
        self.nodes: dict[str, NodeEntry] = {}
        self.revisions: dict[str, int] = {}
        self.seen_s: dict[str, float] = {}
        """When each node last asked this broker."""
        self.states: dict[str, NodeState] = {}
        """What each node said of itself then."""
        self._revision = Revision(0)
        self._started: asyncio.Task[None] | None = None
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}

    async def ready(self) -> None:
        """Return once the copy has what was committed before the first call."""
        if self._started is None or (self._started.done() and self._started.exception() is not None):
            self._started = self._tasks.park(self._start())
        await asyncio.shield(self._started)

    async def _start(self) -> None:
        await self._list()
        self._tasks.park(self._watch_for_ever())

    async def _list(self) -> None:
        found = await self._store.list(NODES)
        names = [entry.key.removeprefix(NODES) for entry in found.entries]
        for name in [name for name in self.nodes if name not in names]:
            self._forget(name)
        for entry in found.entries:
            self._take(entry.key, entry.value, entry.mod_revision)
        self._revision = max(self._revision, found.revision)

    async def _watch_for_ever(self) -> None:
        while True:
            try:
                async for changes in self._store.watch(NODES, self._revision):
                    if not isinstance(changes, Changes):
                        break
                    for event in changes.events:
                        if event.kind is EventKind.DELETE:
                            self._forget(event.key.removeprefix(NODES))
                        else:
                            self._take(event.key, event.value, event.revision)
                    self._revision = changes.revision
            except StoreUnavailableError as fault:
                log_event("registry: the metadata store is away", level="warning", reason=str(fault))
            await asyncio.sleep(_RETRY_S)
            try:
                await self._list()
            except StoreUnavailableError:
                continue

    def _take(self, key: str, value: bytes, revision: int) -> None:
        name = key.removeprefix(NODES)
        if self.revisions.get(name, -1) >= revision:
            return
        try:
            entry = _ENTRIES.decode(value)
        except msgspec.MsgspecError as fault:
            log_event("registry: an entry cannot be read", level="error", node=name, reason=str(fault))
            return
        self.nodes[name], self.revisions[name] = entry, revision
        self._wake(name)

    def _forget(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.revisions.pop(name, None)
        self.states.pop(name, None)
        self._wake(name)

    def _wake(self, name: str) -> None:
        """Answer the requests of a node, and of its children."""
        for waiter in [name, *(entry.node for entry in self.nodes.values() if name in entry.parents)]:
            for waiting in self._waiting.pop(waiter, ()):
                if not waiting.done():
                    waiting.set_result(None)

    # Changes

    async def change(self, decide: Callable[[Mapping[str, NodeEntry]], NodeEntry | Refusal]) -> NodeEntry | Refusal:
        """Write the entry that a decision makes."""
        await self.ready()
        for _ in range(_ATTEMPTS_MAX):
            found = decide(self.nodes)
            if isinstance(found, Refusal) or found == self.nodes.get(found.node):
                return found
            if await self._commit((found,), ()):
                return found
            await self._list()
        return BUSY

    async def retire(self, node: str, *, is_forced: bool) -> Refusal | None:
        """Remove a node, from its children's lists as well where that is forced."""
        await self.ready()
        for _ in range(_ATTEMPTS_MAX):
            found = retire(self.nodes, node, is_forced=is_forced)
            if isinstance(found, Refusal):
                return found
            is_last = len(found) <= _CHILDREN_AT_ONCE
            if await self._commit(found[:_CHILDREN_AT_ONCE], (node,) if is_last else ()) and is_last:
                return None
            await self._list()
        return BUSY

    async def _commit(self, written: tuple[NodeEntry, ...], removed: tuple[str, ...]) -> bool:
        names = [*(entry.node for entry in written), *removed]
        read = dict.fromkeys([*names, *(parent for entry in written for parent in entry.parents)])
        compares: list[Compare] = [
            ModifiedAt(NODES + name, Revision(self.revisions[name])) if name in self.revisions else Absent(NODES + name)
            for name in read
        ]
        operations: list[Operation] = [Put(NODES + entry.node, msgspec.json.encode(entry)) for entry in written]
        operations += [Delete(NODES + name) for name in removed]
        outcome = await self._store.commit(compares[:100], operations)
        if isinstance(outcome, Refused):
            return False
        for entry in written:
            self._take(NODES + entry.node, msgspec.json.encode(entry), outcome.revision)
        for name in removed:
            self._forget(name)
        return True

    # Topologies

    def note_state(self, node: str, state: NodeState | None) -> None:
        """A node has said how it does."""
        if state is not None and node in self.nodes:
            self.states[node] = state

    async def topology(self, node: str, seen: int, wait_s: float) -> Topology | None:
        """A node's topology, as soon as it is later than the one that the node has seen; None for an unknown node."""
        await self.ready()
        self.seen_s[node] = time.monotonic()
        found = topology_of(self.nodes, self.revisions, node)
        if found is None:
            return None
        if (ahead := catch_up(self.nodes[node], found, seen)) is not None:
            await self.change(lambda nodes: ahead)
            return topology_of(self.nodes, self.revisions, node)
        if found.version == seen and wait_s > 0:
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(node, []).append(waiting)
            try:
                await asyncio.wait([waiting], timeout=wait_s)
            finally:
                left = self._waiting.get(node, [])
                if waiting in left:
                    left.remove(waiting)
            found = topology_of(self.nodes, self.revisions, node)
        return found

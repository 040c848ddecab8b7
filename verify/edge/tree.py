"""The registry: entries in a store with revisions, moved by operators; it may be away, and be restored from a copy."""

from __future__ import annotations

from qanat.edge import registry
from qanat.edge.registry import NodeEntry, Place, Refusal, Registration
from qanat.edge.topology import Role, Topology
from verify.edge.world import EdgeMismatchError, Machine, World


class Registry(Machine):
    """A broker of the cluster that holds the tree."""

    def __init__(self, world: World) -> None:
        super().__init__("registry")
        self.life = 1
        self._world = world
        self.nodes: dict[str, NodeEntry] = {}
        self.revisions: dict[str, int] = {}
        self.revision = 1
        self._copy: tuple[dict[str, NodeEntry], dict[str, int], int] | None = None

    def put(self, entry: NodeEntry) -> None:
        if self.nodes.get(entry.node) != entry:
            self.revision += 1
            self.nodes[entry.node] = entry
            self.revisions[entry.node] = self.revision
        self._check()

    def place(self, node: str, place: Place) -> bool:
        found = registry.assign(self.nodes, node, place)
        if isinstance(found, Refusal):
            return False
        self.put(found)
        return True

    def register(self, node: str, instance: str, role: Role | None) -> bool:
        found = registry.register(self.nodes, Registration(node, instance, f"http://{node}:8080", role))
        if isinstance(found, Refusal):
            return False
        self.put(found)
        return True

    def answer(self, node: str, seen: int) -> Topology | None:
        found = registry.topology_of(self.nodes, self.revisions, node)
        if found is None:
            return None
        ahead = registry.catch_up(self.nodes[node], found, seen)
        if ahead is not None:
            self.put(ahead)
            found = registry.topology_of(self.nodes, self.revisions, node)
        return found

    def back_up(self) -> None:
        self._copy = dict(self.nodes), dict(self.revisions), self.revision

    def restore(self) -> None:
        if self._copy is not None:
            nodes, revisions, self.revision = self._copy
            self.nodes, self.revisions = dict(nodes), dict(revisions)

    def _check(self) -> None:
        """No loops, however the entries came about; an independent walk."""
        for name in self.nodes:
            left, seen = list(self.nodes[name].parents), dict[str, None]()
            while left:
                at = left.pop()
                if at == name:
                    raise EdgeMismatchError(f"the registry has a loop through {name}")
                if at not in seen and at in self.nodes:
                    seen[at] = None
                    left += self.nodes[at].parents
        for entry in self.nodes.values():
            levels = {Role.ROOT: 0, Role.L2: 1, Role.L3: 2, Role.POS: 3, Role.LOCAL: 3}
            for name in entry.parents:
                parent = self.nodes.get(name)
                is_fit = parent is None or parent.role is None or entry.role is None
                if not is_fit and levels[parent.role] >= levels[entry.role]:  # type: ignore[union-attr,index]
                    raise EdgeMismatchError(f"{name} is a parent of {entry.node}, which is not below it")

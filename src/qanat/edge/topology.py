"""The place of a node in the tree: its role, its ordered parents, its topics; and which topology a node accepts.

The registry makes topologies (`registry`); a node keeps the last one that it accepted, through outages and restarts.

Rule 1: a node accepts no topology that is older than the one it has, or another one of the same version.
Rule 2: a node is never its own parent, not even over others: it drops a parent whose data came through itself
        (`is_loop`).
Rule 3: a parent's role is nearer to the root than its child's. POS and LOCAL are leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from msgspec import Struct, field

from qanat.edge.key_filter import Keys, split_entry, wanted_keys

EVERYTHING = ("*",)
OWN_SCHEMES = ("http", "https")
"""Of parents that need no plug-in."""
VERSION_MAX = 2**53 - 1
"""The largest version: JSON readers in other languages have no larger integers."""
_INTERNAL = "__"


class Role(Enum):
    """How far a node is from the root."""

    ROOT = "ROOT"
    L2 = "L2"
    L3 = "L3"
    POS = "POS"
    LOCAL = "LOCAL"


_LEVEL = {Role.ROOT: 0, Role.L2: 1, Role.L3: 2, Role.POS: 3, Role.LOCAL: 3}


class Dialect(Enum):
    """How a parent answers a pipe: with batches as they lie in its log, or with messages as JSON (a foreign feed)."""

    BATCHES = "batches"
    JSON = "json"


class Parent(Struct, frozen=True, omit_defaults=True):
    """A parent and where it answers."""

    node: str
    url: str
    dialect: Dialect = Dialect.BATCHES

    @property
    def scheme(self) -> str:
        return self.url.partition("://")[0]

    @property
    def is_feed(self) -> bool:
        """Whether it gives messages, and is no Qanat broker."""
        return self.dialect is Dialect.JSON or self.scheme not in OWN_SCHEMES


class Topology(Struct, frozen=True):
    """What a registry says of one node; without a role it is known, and has no place yet."""

    node: str
    version: int
    role: Role | None = None
    parents: tuple[Parent, ...] = ()
    topics: tuple[str, ...] = field(default=EVERYTHING)


def may_be_parent(parent: Role, child: Role) -> bool:
    """Whether a node of one role may feed a node of another."""
    return _LEVEL[parent] < _LEVEL[child]


def why_refused(offered: Topology, kept: Topology | None, node: str, claimed: Role | None = None) -> str | None:
    """Why a node refuses a topology; None where it accepts it. `claimed` is the role that its operator set at the node
    itself."""
    if offered.node != node:
        return f"it is of node {offered.node[:100]!r}, this is {node!r}"
    if not 0 <= offered.version <= VERSION_MAX:
        return f"its version {offered.version} is none"
    if kept is not None and offered.version < kept.version:
        return f"its version {offered.version} is older than {kept.version}, which is in force"
    if kept is not None and offered.version == kept.version and offered != kept:
        return f"it differs from the one in force, which has the same version {kept.version}"
    if claimed is not None and offered.role is not None and offered.role is not claimed:
        return f"its role is {offered.role.value}, and this node is set up as {claimed.value}"
    return _misfit(offered)


def _misfit(offered: Topology) -> str | None:
    names = [parent.node for parent in offered.parents]
    if offered.node in names:
        return "the node is its own parent"
    if len(dict.fromkeys(names)) < len(names):
        return f"a parent is listed twice: {', '.join(names)[:200]}"
    if offered.role is Role.ROOT and names:
        return "a ROOT has no parents"
    if offered.role is None and names:
        return "a node without a role has no parents"
    return None


def is_loop(path: Sequence[str], node: str) -> bool:
    """Whether a parent's data came through this node. `path` are the parent and its ancestors."""
    return node in path


def is_wanted(topic: str, patterns: Sequence[str]) -> bool:
    """Whether a pipe carries a topic: its name, or a beginning with `*`; never a topic of the broker's own."""
    return keys_wanted(topic, patterns) is not None


def keys_wanted(topic: str, entries: Sequence[str]) -> Keys | None:
    """The filter by which a pipe carries a topic, empty for the whole of it; None where it does not carry it."""
    if topic.startswith(_INTERNAL):
        return None
    return wanted_keys([one for one in entries if _names(split_entry(one)[0], topic)])


def _names(pattern: str, topic: str) -> bool:
    return topic.startswith(pattern[:-1]) if pattern.endswith("*") else topic == pattern

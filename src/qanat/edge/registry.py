"""The registry's decisions: who may register, which place a node may be given, what its topology is.

The entries lie in the metadata store. A decision looks at all of them and returns the entries to write, or a refusal;
the caller commits with compares and decides again where another was faster.

Rule 1: nothing that a node says changes its role, its parents or its topics: those are the operator's.
Rule 2: a name belongs to the first instance that registered it, until the operator retires it.
Rule 3: the tree has no loops: roles rise along every edge, and edges are walked besides.
Rule 4: the version of a node's topology rises with each change of its own entry or those of its parents.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field
from msgspec.structs import replace

from qanat.edge.key_filter import why_no_entry
from qanat.edge.topology import EVERYTHING, VERSION_MAX, Dialect, Parent, Role, Topology, may_be_parent

PARENTS_MAX = 16
TOPICS_MAX = 1000
URL_LENGTH_MAX = 500
_URL = re.compile(r"[a-z][a-z0-9+.-]*://.")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


class NodeEntry(Struct, frozen=True, kw_only=True):
    """A node of the tree, as stored."""

    version: int = 1
    """Of this form."""
    node: str
    instance: str = ""
    """The cluster id of the node that has registered; empty before."""
    role: Role | None = None
    parents: tuple[str, ...] = ()
    topics: tuple[str, ...] = field(default=EVERYTHING)
    url: str | None = None
    """Where its children reach it; None where it has none."""
    dialect: Dialect = Dialect.BATCHES
    ahead: int = 0
    """Added to the store's revision: a registry that was restored goes on above what the node has seen."""


class Why(Enum):
    """The kind of a refusal."""

    INVALID = "invalid"
    CONFLICT = "conflict"
    UNKNOWN = "unknown"


class Refusal(Struct, frozen=True):
    """A change that is not made."""

    why: Why
    reason: str


class Registration(Struct, frozen=True):
    """What a node says of itself."""

    node: str
    instance: str
    url: str | None = None
    role: Role | None = None
    """The role that it believes to have."""


def register(nodes: Mapping[str, NodeEntry], said: Registration) -> NodeEntry | Refusal:
    """The entry of a node that registers; equal to the present one where nothing changes."""
    if (fault := _misspelled(said.node, said.url)) is not None:
        return fault
    if not said.instance or len(said.instance) > 100:
        return Refusal(Why.INVALID, "instance should be the node's cluster id")
    entry = nodes.get(said.node, NodeEntry(node=said.node))
    if entry.instance not in ("", said.instance):
        reason = f"node {said.node} is registered by another instance: choose another node.id, or retire {said.node}"
        return Refusal(Why.CONFLICT, reason)
    if said.role is not None and said.role is not entry.role:
        assigned = "no role" if entry.role is None else f"role {entry.role.value}"
        return Refusal(Why.CONFLICT, f"node {said.node} claims role {said.role.value}, but {assigned} is assigned")
    return replace(entry, instance=said.instance, url=said.url)


class Place(Struct, frozen=True):
    """What an operator assigns to a node."""

    role: Role
    parents: tuple[str, ...] = ()
    topics: tuple[str, ...] = EVERYTHING
    url: str | None = None
    """Of a node that does not register by itself, such as a foreign feed."""
    dialect: Dialect | None = None


def assign(nodes: Mapping[str, NodeEntry], node: str, place: Place) -> NodeEntry | Refusal:
    """The entry of a node with its place, where the tree stays one."""
    if (fault := _misspelled(node, place.url)) is not None:
        return fault
    if len(place.topics) > TOPICS_MAX:
        return Refusal(Why.INVALID, f"topics should be at most {TOPICS_MAX} names, or beginnings with *")
    for why in map(why_no_entry, place.topics):
        if why is not None:
            return Refusal(Why.INVALID, f"topics: {why}")
    if (fault := _unfit(nodes, node, place)) is not None:
        return fault
    entry = nodes.get(node, NodeEntry(node=node))
    url, dialect = place.url or entry.url, place.dialect or entry.dialect
    found = replace(entry, role=place.role, parents=place.parents, topics=place.topics, url=url, dialect=dialect)
    return _unfit_above(nodes, found) or found


def _misspelled(node: str, url: str | None) -> Refusal | None:
    if not _NAME.fullmatch(node):
        return Refusal(Why.INVALID, f"{node[:100]!r} is no name of a node: use up to 100 letters, digits, . _ and -")
    if url is None:
        return None
    is_url = _URL.match(url) is not None and url.isprintable() and " " not in url
    if not is_url or url.endswith("/") or len(url) > URL_LENGTH_MAX:
        return Refusal(
            Why.INVALID, f"url {url[:100]!r} should be like http://broker.example:8080, or have the scheme of a plug-in"
        )
    return None


def _unfit(nodes: Mapping[str, NodeEntry], node: str, place: Place) -> Refusal | None:
    """What is wrong with the parents of a place."""
    if len(place.parents) > PARENTS_MAX:
        return Refusal(Why.INVALID, f"a node has at most {PARENTS_MAX} parents")
    if len(dict.fromkeys(place.parents)) < len(place.parents):
        return Refusal(Why.INVALID, f"a parent is listed twice: {', '.join(place.parents)}")
    if place.role is Role.ROOT and place.parents:
        return Refusal(Why.CONFLICT, "a ROOT has no parents")
    for name in place.parents:
        parent = nodes.get(name)
        if name == node:
            return Refusal(Why.CONFLICT, f"{node} cannot be its own parent")
        if parent is None or parent.role is None:
            return Refusal(Why.CONFLICT, f"parent {name[:100]} has no role yet: assign it first")
        if not may_be_parent(parent.role, place.role):
            reason = (
                f"{name} is {parent.role.value} and cannot be a parent of {node}, which would be {place.role.value}"
            )
            return Refusal(Why.CONFLICT, reason)
        if _is_above(nodes, node, name):
            return Refusal(Why.CONFLICT, f"{name} is below {node}: that would be a loop")
    return None


def _unfit_above(nodes: Mapping[str, NodeEntry], changed: NodeEntry) -> Refusal | None:
    """Why a node may not get a role: it has children that must be below it."""
    assert changed.role is not None
    for child in nodes.values():
        if changed.node in child.parents and child.role is not None and not may_be_parent(changed.role, child.role):
            reason = f"{changed.node} is a parent of {child.node}, which is {child.role.value}: move that first"
            return Refusal(Why.CONFLICT, reason)
    return None


def _is_above(nodes: Mapping[str, NodeEntry], node: str, start: str) -> bool:
    """Whether a node is among the ancestors of another."""
    left, seen = [start], dict[str, None]()
    while left:
        name = left.pop()
        if name == node:
            return True
        if name not in seen and name in nodes:
            seen[name] = None
            left += nodes[name].parents
    return False


def retire(nodes: Mapping[str, NodeEntry], node: str, *, is_forced: bool = False) -> tuple[NodeEntry, ...] | Refusal:
    """The children to change when a node goes: none, unless it is forced."""
    if node not in nodes:
        return Refusal(Why.UNKNOWN, f"the registry does not know node {node[:100]}")
    children = [entry for entry in nodes.values() if node in entry.parents]
    if children and not is_forced:
        names = ", ".join(entry.node for entry in children[:5])
        more = f" and {len(children) - 5} more" if len(children) > 5 else ""
        return Refusal(Why.CONFLICT, f"{node} is a parent of {names}{more}: move them first, or force it")
    return tuple(replace(entry, parents=tuple(name for name in entry.parents if name != node)) for entry in children)


def topology_of(nodes: Mapping[str, NodeEntry], revisions: Mapping[str, int], node: str) -> Topology | None:
    """A node's topology; `revisions` are the store's, at which each entry was last written."""
    entry = nodes.get(node)
    if entry is None:
        return None
    known = [nodes[name] for name in entry.parents if name in nodes]
    newest = max(revisions[one.node] for one in (entry, *known))
    parents = tuple(Parent(one.node, one.url, one.dialect) for one in known if one.url is not None)
    return Topology(node, newest + entry.ahead, entry.role, parents, entry.topics)


def catch_up(entry: NodeEntry, topology: Topology, seen: int) -> NodeEntry | None:
    """The entry whose topology will have a later version than its node has seen; None where it has.

    The store was restored from an older copy; its next revision is larger than `topology` says.
    """
    if seen <= topology.version or seen > VERSION_MAX // 2:
        return None
    return replace(entry, ahead=entry.ahead + seen - topology.version)

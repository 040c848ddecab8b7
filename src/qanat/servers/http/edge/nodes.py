"""The registry over HTTP: nodes register and ask for their topology; operators give them places.

Registering and asking need DESCRIBE on the cluster, changing the tree ALTER. A registration changes no place.
"""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import msgspec
from msgspec import Meta

from qanat.edge.node_state import HEADER, NodeState, decode_state
from qanat.edge.registry import NodeEntry, Place, Refusal, Registration, Why, assign, register, topology_of
from qanat.edge.topology import EVERYTHING, Dialect, Parent, Role, Topology
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.inputs import Parameters, RequestBody
from qanat.servers.http.operations import Operation
from qanat.servers.http.paging import PageQuery, page_of
from qanat.servers.http.problems import Problem
from qanat.servers.http.reply import Reply

Wait = Annotated[int, Meta(ge=0)]
_PARKED_MAX_MS = 25_000
_STATUS = {Why.INVALID: 400, Why.CONFLICT: 409, Why.UNKNOWN: 404}


class NodeToRegister(RequestBody, frozen=True):
    """What a node says of itself."""

    node: str
    instance: str
    """The node's cluster id: the first that registers a name owns it."""
    url: str | None = None
    """Where children of the node reach it."""
    role: Role | None = None
    """The role that it expects; another one than the assigned is refused."""


class NodeToPlace(RequestBody, frozen=True):
    """The place of a node in the tree."""

    role: Role
    parents: list[str] = msgspec.field(default_factory=list)
    """In the order in which they are tried."""
    topics: list[str] = msgspec.field(default_factory=lambda: list(EVERYTHING))
    """Names of topics that its pipe carries; `*` at the end stands for any rest. With `:KEY` after the name, only the
    records of that key, or with `:KEY*` of all keys that begin so."""
    url: str | None = None
    """Of a node that does not register by itself, such as a foreign feed."""
    dialect: Dialect | None = None


class EdgeNodeView(msgspec.Struct):
    """A node of the tree."""

    node: str
    role: Role | None
    parents: list[str]
    topics: list[str]
    url: str | None
    dialect: Dialect
    instance: str
    """Empty where it has not registered yet."""
    version: int
    """Of its topology."""
    seen_ms_ago: int | None
    """Since it last asked this broker; None where it has not."""
    state: NodeState | None
    """How it did then, by its own words; None where it has not said."""


class EdgeNodePage(msgspec.Struct):
    """Nodes of the tree."""

    nodes: list[EdgeNodeView]
    next_page_token: str | None


class TopologyView(msgspec.Struct):
    """The place of one node."""

    node: str
    version: int
    role: Role | None
    parents: list[Parent]
    topics: list[str]


class NodeRetired(msgspec.Struct):
    """What was done."""

    node: str
    done: str


class TopologyQuery(Parameters, frozen=True):
    """How to wait."""

    timeout_ms: Wait = 0
    """How long to wait where the topology is the one of If-None-Match."""


class RetireQuery(Parameters, frozen=True):
    """How to retire."""

    force: bool = False
    """Whether to remove it from the parents of its children as well."""


def _done(found: NodeEntry | Refusal) -> NodeEntry:
    if isinstance(found, Refusal):
        raise Problem(_STATUS[found.why], found.reason)
    return found


async def register_node(exchange: Exchange) -> Reply:
    said: NodeToRegister = exchange.body
    exchange.context.gateway.require_describe(exchange.caller, "the registry")
    registry = exchange.context.broker.edge_registry
    wanted = Registration(said.node, said.instance, said.url, said.role)
    _done(await registry.change(lambda nodes: register(nodes, wanted)))
    found = await registry.topology(said.node, -1, 0)
    assert found is not None, "a registered node has a topology"
    return _reply(found, 200 if found.role is not None else 202)


async def topology(exchange: Exchange) -> Reply:
    exchange.context.gateway.require_describe(exchange.caller, "the registry")
    node = exchange.path["node"]
    query: TopologyQuery = exchange.query
    seen = _seen(exchange.header(b"if-none-match"))
    wait_s = min(query.timeout_ms, _PARKED_MAX_MS) / 1000
    await exchange.context.broker.edge_registry.ready()
    exchange.context.broker.edge_registry.note_state(node, decode_state(exchange.header(_STATE)))
    try:
        found = await exchange.context.broker.edge_registry.topology(node, seen, wait_s)
    except asyncio.CancelledError:
        raise_if_stopping(exchange)
        raise
    if found is None:
        raise Problem(404, f"the registry does not know node {node[:100]}: register it first")
    if found.version == seen:
        return Reply(304, b"", headers=_headers(found))
    return _reply(found, 200)


def raise_if_stopping(exchange: Exchange) -> None:
    """Answer a request that the stop of this broker has cut short."""
    if exchange.context.is_stopping:
        raise Problem(503, "the node is stopping", headers=((b"retry-after", b"1"),)) from None


def _seen(header: bytes | None) -> int:
    text = (header or b"").decode("latin-1").removeprefix("W/").strip('"')
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1


def _headers(found: Topology) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"etag", b'"%d"' % found.version),)


def _reply(found: Topology, status: int) -> Reply:
    return Reply(status, msgspec.json.encode(found) + b"\n", headers=_headers(found))


async def list_nodes(exchange: Exchange) -> EdgeNodePage:
    exchange.context.gateway.require_describe(exchange.caller, "the registry")
    registry = exchange.context.broker.edge_registry
    await registry.ready()
    shown, token = page_of(sorted(registry.nodes), str, exchange.query)
    return EdgeNodePage([_view(exchange, name) for name in shown], token)


def _view(exchange: Exchange, name: str) -> EdgeNodeView:
    registry = exchange.context.broker.edge_registry
    entry = registry.nodes[name]
    found = topology_of(registry.nodes, registry.revisions, name)
    seen_s = registry.seen_s.get(name)
    return EdgeNodeView(
        name,
        entry.role,
        list(entry.parents),
        list(entry.topics),
        entry.url,
        entry.dialect,
        entry.instance,
        0 if found is None else found.version,
        None if seen_s is None else round((time.monotonic() - seen_s) * 1000),
        registry.states.get(name),
    )


async def place_node(exchange: Exchange) -> EdgeNodeView:
    exchange.context.gateway.require_alter(exchange.caller, "the registry")
    said: NodeToPlace = exchange.body
    place = Place(said.role, tuple(said.parents), tuple(said.topics), said.url, said.dialect)
    node = exchange.path["node"]
    _done(await exchange.context.broker.edge_registry.change(lambda nodes: assign(nodes, node, place)))
    return _view(exchange, node)


async def retire_node(exchange: Exchange) -> NodeRetired:
    exchange.context.gateway.require_alter(exchange.caller, "the registry")
    query: RetireQuery = exchange.query
    node = exchange.path["node"]
    refused = await exchange.context.broker.edge_registry.retire(node, is_forced=query.force)
    if refused is not None:
        raise Problem(_STATUS[refused.why], refused.reason)
    return NodeRetired(node, "retired")


_STATE = HEADER.lower().encode()
_ETAG = {
    HEADER: "how the node does, for `qanat edge tree`",
    "If-None-Match": "the version of the topology that the node has",
}

OPERATIONS = (
    Operation(
        "POST",
        "/api/v1/edge/nodes",
        register_node,
        "Register a node of the tree; 202 where it has no role yet",
        "edge",
        body=NodeToRegister,
        answer=TopologyView,
        statuses=(202,),
    ),
    Operation(
        "GET",
        "/api/v1/edge/nodes",
        list_nodes,
        "List the nodes of the tree",
        "edge",
        query=PageQuery,
        answer=EdgeNodePage,
    ),
    Operation(
        "PUT",
        "/api/v1/edge/nodes/{node}",
        place_node,
        "Give a node a role, parents and topics, or move it",
        "edge",
        body=NodeToPlace,
        answer=EdgeNodeView,
    ),
    Operation(
        "DELETE",
        "/api/v1/edge/nodes/{node}",
        retire_node,
        "Retire a node",
        "edge",
        query=RetireQuery,
        answer=NodeRetired,
    ),
    Operation(
        "GET",
        "/api/v1/edge/topology/{node}",
        topology,
        "The place of a node; waits for a change of the version in If-None-Match",
        "edge",
        query=TopologyQuery,
        answer=TopologyView,
        statuses=(304,),
        headers=_ETAG,
        waits=True,
        is_long_poll=True,
    ),
)

"""`/health` and `/metrics`: whether this node is alive and ready, and its counters.

Rule: where HTTP requires authentication, a client without it learns the status and nothing else; an authenticated one
      learns the names of the topics that it may describe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import UNSET, UnsetType

from qanat.servers.http.admin.partition_problems import DegradedPartition
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.operations import Operation
from qanat.servers.http.reply import Reply
from qanat.telemetry.handler_apps import HandlerProcess

if TYPE_CHECKING:
    from qanat.broker.edge.edge_node import EdgeNode
    from qanat.broker.edge.up_sender import UpSender
    from qanat.servers.http.context import HttpContext

Status = Literal["HEALTHY", "DEGRADED", "UNHEALTHY"]
_SHOWN_MAX = 100


class HandlerHealth(msgspec.Struct):
    """A process of handlers that this node runs."""

    app: str
    worker: int
    state: Literal["running", "failing", "starting"]
    pid: int
    """0 where no process runs."""
    problem: str | None = None


class EdgeGap(msgspec.Struct):
    """Records of a mirrored partition that this broker lacks: from `first` up to `end`, exclusive."""

    topic: str
    partition: int
    first: int
    end: int


class EdgeOutbox(msgspec.Struct):
    """A partition whose records go up to the parent."""

    topic: str
    partition: int
    target: str
    """The parent's topic."""
    state: Literal["IDLE", "SENDING", "WAITING", "STOPPED"]
    """`WAITING`: a request failed and is repeated; `STOPPED`: the operator must decide."""
    lag_records: int
    """Offsets that the parent does not have yet."""
    stored_bytes: int
    fault: str


class EdgeHealth(msgspec.Struct):
    """This broker as a node of a tree."""

    node: str
    role: str | None
    topology_version: int | None
    parent: str | None
    parents: list[str]
    pipe: Status
    lag_records: int
    """Below the parent's high watermark, by its last answer."""
    lag_ms: int
    """For how long some of them have been missing."""
    last_fault: str
    registry_fault: str
    stopped: list[EdgeGap]
    """Partitions that wait for records that their parent does not have any more."""
    gaps: list[EdgeGap]
    """The first hundred recorded gaps."""
    not_mirrored: dict[str, str]
    """Topics of the parent that cannot be mirrored, and why."""
    up_parent: str | None
    """The parent that records go up to."""
    up_lag_records: int
    up_fault: str
    """Why that parent could not be reached the last time."""
    outboxes: list[EdgeOutbox]
    """The first hundred partitions whose records go up, those with problems first."""


class Health(msgspec.Struct):
    """Whether this node can be used; a client that should authenticate and has not gets the first three."""

    status: Status
    """`DEGRADED`: some partitions have problems; `UNHEALTHY`: nothing can be written."""
    live: bool
    ready: bool
    node_id: int | UnsetType = UNSET
    cluster_id: str | UnsetType = UNSET
    brokers: int | UnsetType = UNSET
    topics: int | UnsetType = UNSET
    partitions: int | UnsetType = UNSET
    degraded_count: int | UnsetType = UNSET
    degraded: list[DegradedPartition] | UnsetType = UNSET
    """The first hundred of them."""
    reason: str | UnsetType | None = None
    handlers: list[HandlerHealth] | UnsetType = UNSET
    """Processes of handlers.apps; their state is not the node's."""
    edge: EdgeHealth | UnsetType = UNSET
    """Where this broker has a registry."""


class Alive(msgspec.Struct):
    """The process answers."""

    live: bool


async def health_of(context: HttpContext, sees: Callable[[str], bool]) -> Health:
    """The health of this node; `sees` says which topics are named."""
    broker = context.broker
    image = broker.metadata.image
    partitions, degraded = await context.partition_problems.found()
    reason = None
    status: Status = "DEGRADED" if degraded else "HEALTHY"
    failed = broker.runtime.directory.state.failure
    if failed is not None:
        status, reason = "UNHEALTHY", str(failed)
    elif context.is_stopping:
        status, reason = "UNHEALTHY", "the node is stopping"
    is_ready = status != "UNHEALTHY"
    return Health(
        status,
        True,
        is_ready,
        broker.node_id,
        broker.metadata.image.cluster_id,
        len(image.brokers),
        len(image.topics),
        partitions,
        len(degraded),
        list(islice((one for one in degraded if sees(one.topic)), _SHOWN_MAX)),
        reason,
        [_handler_health(app.name, worker) for app in broker.handler_apps for worker in app.workers] or UNSET,
        _edge(broker.edge_node, sees),
    )


def _edge(node: EdgeNode | None, sees: Callable[[str], bool]) -> EdgeHealth | UnsetType:
    """The node of the tree; a pipe that fails makes no broker unhealthy, which goes on by itself."""
    if node is None:
        return UNSET
    topology, pipe, mirrors = node.topology, node.pipe, node.mirrors
    current = pipe.choice.current
    role = None if topology is None or topology.role is None else topology.role.value
    gaps = [(at, gap) for at in mirrors.partitions() if sees(at.topic) for gap in mirrors.gaps(at)]
    return EdgeHealth(
        node.name,
        role,
        None if topology is None else topology.version,
        None if current is None else current.node,
        [one.node for one in pipe.choice.parents],
        pipe.health.value,
        pipe.lag_records,
        pipe.lag_ms,
        pipe.last_fault,
        node.registry_fault,
        [EdgeGap(*at, gap.first, gap.end) for at, gap in mirrors.stopped.items() if sees(at.topic)],
        [EdgeGap(*at, gap.first, gap.end) for at, gap in gaps[:_SHOWN_MAX]],
        {name: why for name, why in mirrors.conflicts.items() if sees(name)},
        None if node.up.parent is None else node.up.parent.node,
        node.up.lag_records,
        node.up.last_fault,
        [_outbox(one) for one in _worst_first(node.up.senders.values()) if sees(one.at.topic)][:_SHOWN_MAX],
    )


def _worst_first(senders: Iterable[UpSender]) -> list[UpSender]:
    return sorted(senders, key=lambda one: (not one.is_stopped, not one.fault, not one.lag_records, one.at))


def _outbox(one: UpSender) -> EdgeOutbox:
    room = one.partition.outbox
    stored_bytes = 0 if room is None else room.stored_bytes
    return EdgeOutbox(*one.at, one.target, one.state.value, one.lag_records, stored_bytes, one.fault)


def _handler_health(app: str, worker: HandlerProcess) -> HandlerHealth:
    problem = worker.report.problem or worker.problem or None
    return HandlerHealth(app, worker.number, worker.state, worker.pid, problem)


def _every_topic(name: str) -> bool:
    return True


async def health(exchange: Exchange) -> Reply:
    context, caller = exchange.context, exchange.caller
    security = context.gateway.security
    access = None if security is None else security.access(context.broker, caller, 0)
    found = await health_of(context, _every_topic if access is None else access.visibility)
    if context.authentication.is_required and not caller.is_authenticated:
        found = Health(found.status, found.live, found.ready, reason=UNSET)
    return Reply(200 if found.ready else 503, msgspec.json.encode(found) + b"\n")


async def health_ready(exchange: Exchange) -> Reply:
    return await health(exchange)


async def health_live(exchange: Exchange) -> Alive:
    return Alive(True)


async def metrics(exchange: Exchange) -> Reply:
    from qanat.telemetry.exposition import CONTENT_TYPE

    # They name topics: who may not see these in a list does not see them here.
    exchange.context.gateway.require_describe(exchange.caller, "metrics")
    return Reply(200, await exchange.context.metrics.text(), CONTENT_TYPE.encode())


OPERATIONS = (
    Operation(
        "GET",
        "/health",
        health,
        "Whether this node lives and can serve; 503 where it cannot. Details are for authenticated clients",
        "health",
        answer=Health,
        statuses=(503,),
        is_public=True,
    ),
    Operation(
        "GET", "/health/live", health_live, "Whether this node answers at all", "health", answer=Alive, is_public=True
    ),
    Operation(
        "GET",
        "/health/ready",
        health_ready,
        "The same as /health: for load balancers",
        "health",
        answer=Health,
        statuses=(503,),
        is_public=True,
    ),
    Operation("GET", "/metrics", metrics, "What is counted, for Prometheus", "health", answers={"text/plain": str}),
)

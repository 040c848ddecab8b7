"""`/health` and `/metrics`: whether this node is alive and ready, and its counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.cluster import values
from qanat.cluster.election_waits import replica_problems
from qanat.cluster.image import MetadataImage
from qanat.cluster.proofs import Evidence
from qanat.model.error_codes import ErrorCode
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.operations import Operation
from qanat.servers.http.reply import Reply

if TYPE_CHECKING:
    from qanat.servers.http.context import HttpContext

Status = Literal["HEALTHY", "DEGRADED", "UNHEALTHY"]
_SHOWN_MAX = 100


class DegradedPartition(msgspec.Struct):
    """A partition that does not serve as it should."""

    topic: str
    partition: int
    leader: int
    problem: str


class Health(msgspec.Struct):
    """Whether this node can be used."""

    status: Status
    """`DEGRADED`: some partitions have problems; `UNHEALTHY`: nothing can be written."""
    live: bool
    ready: bool
    node_id: int
    cluster_id: str
    brokers: int
    topics: int
    partitions: int
    degraded_count: int
    degraded: list[DegradedPartition]
    """The first hundred of them, as far as the caller may see their topics."""
    reason: str | None = None


class Alive(msgspec.Struct):
    """The process answers."""

    live: bool


async def health_of(context: HttpContext) -> Health:
    broker = context.broker
    image = broker.metadata.image
    degraded: list[DegradedPartition] = []
    count = partitions = 0
    async for topic in CooperativeYield().over(list(image.topics.values())):
        if topic.name not in image.topics:
            continue
        partitions += len(topic.partitions)
        for number in range(len(topic.partitions)):
            problem = _problem(context, topic.name, number)
            if problem is not None:
                count += 1
                if count <= _SHOWN_MAX:
                    leader = image.state(topic, number).leader
                    degraded.append(DegradedPartition(topic.name, number, leader, problem))
    reason = None
    status: Status = "DEGRADED" if count else "HEALTHY"
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
        count,
        degraded,
        reason,
    )


def _problem(context: HttpContext, name: str, number: int) -> str | None:
    """The problem of a partition, as far as this node sees it."""
    broker = context.broker
    image = broker.metadata.image
    topic = image.topics[name]
    state = image.state(topic, number)
    if state.leader < 0 or state.leader not in image.brokers:
        return "; ".join(["it has no leader", *_faults(image, topic, number)])
    if state.leader == broker.node_id:
        found = broker.lookup.led(name, number)
        if isinstance(found, ErrorCode):
            return found.name
        if found.lacks_replicas:
            return f"{found.in_sync_replicas} replicas are in sync, {found.needed_in_sync} are needed"
    faults = _faults(image, topic, number)
    if len(state.in_sync) < len(state.replicas):
        faults.insert(0, f"{len(state.in_sync)} of {len(state.replicas)} replicas are in sync")
    return "; ".join(faults) or None


def _faults(image: MetadataImage, topic: values.Topic, number: int) -> list[str]:
    """The damaged or offline replicas, as their brokers report."""
    if not image.replica_faults:
        return []
    evidence = Evidence(faults=image.replica_faults.get((topic.topic_id, number), {}))
    return replica_problems(image.state(topic, number), evidence)


async def health(exchange: Exchange) -> Reply:
    found = await health_of(exchange.context)
    found.degraded = await _shown(exchange, found.degraded)
    return Reply(200 if found.ready else 503, msgspec.json.encode(found) + b"\n")


async def _shown(exchange: Exchange, degraded: list[DegradedPartition]) -> list[DegradedPartition]:
    """The partitions whose topics the caller may see. Everyone may ask for health, and need not say who asks."""
    context = exchange.context
    if context.authentication.is_required:
        authorization = exchange.header(b"authorization")
        if authorization is None:
            return []
        exchange.caller.principal = await context.authentication.principal_of(authorization)
    return [row for row in degraded if context.gateway.may_describe(exchange.caller, row.topic)]


async def health_ready(exchange: Exchange) -> Reply:
    return await health(exchange)


async def health_live(exchange: Exchange) -> Alive:
    return Alive(True)


async def metrics(exchange: Exchange) -> Reply:
    from qanat.servers.metrics.exposition import CONTENT_TYPE

    # They name topics: who may not see these in a list does not see them here.
    exchange.context.gateway.require_describe(exchange.caller, "metrics")
    return Reply(200, await exchange.context.metrics.text(), CONTENT_TYPE.encode())


OPERATIONS = (
    Operation(
        "GET",
        "/health",
        health,
        "Whether this node lives and can serve; 503 where it cannot",
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

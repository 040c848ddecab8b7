"""`/health/restartable`: whether this node may be restarted now, apart from whether it serves.

A node is ready as soon as it serves, also while its replicas catch up; else a cluster that starts from nothing would
wait for ever. But the next one must not stop then. So a rolling restart asks the node that it is about to stop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, UnsetType

from qanat.broker.metadata.confirmed_lease import is_confirmed
from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.cluster.restarts import effect_of_restart, others_in_sync
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.operations import Operation
from qanat.servers.http.reply import Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from qanat.servers.http.context import HttpContext

_SHOWN_MAX = 100


class BlockingPartition(msgspec.Struct):
    """A partition that would stop taking writes."""

    topic: str
    partition: int
    problem: str


class Restartable(msgspec.Struct):
    """Whether this node may be restarted; a client that should authenticate and has not gets the first field."""

    restartable: bool
    reason: str | UnsetType | None = None
    blocking_count: int | UnsetType = UNSET
    blocking: list[BlockingPartition] | UnsetType = UNSET
    """The first hundred of them."""
    interrupted_count: int | UnsetType = UNSET
    """Partitions that every restart interrupts, now or later: those with a single replica, or with none to spare."""


async def restartable_of(context: HttpContext, sees: Callable[[str], bool]) -> Restartable:
    """Whether this node may be restarted; `sees` says which topics are named."""
    broker = context.broker
    image = broker.metadata.image
    blocking: list[BlockingPartition] = []
    count = interrupted = 0
    async for topic in CooperativeYield().over(list(image.topics.values())):
        if topic.name not in image.topics:
            continue
        needed = broker.current_settings.topic(topic.name).min_insync_replicas
        for number in range(len(topic.partitions)):
            state = image.state(topic, number)
            effect = effect_of_restart(image, state, broker.node_id, needed)
            interrupted += effect == "interrupted"
            if effect != "blocked":
                continue
            count += 1
            if len(blocking) < _SHOWN_MAX and sees(topic.name):
                left = others_in_sync(image, state, broker.node_id)
                problem = f"{left} replicas in sync without this node, {min(needed, len(state.target))} are needed"
                blocking.append(BlockingPartition(topic.name, number, problem))
    reason = f"{count} partitions would stop taking writes: wait until their replicas have caught up" if count else None
    if not is_confirmed(broker.membership.kept_lease):
        reason = "the metadata store does not answer: which replicas are in sync is not known"
    elif context.is_stopping:
        reason = "the node is stopping"
    return Restartable(reason is None, reason, count, blocking, interrupted)


async def health_restartable(exchange: Exchange) -> Reply:
    context, caller = exchange.context, exchange.caller
    security = context.gateway.security
    access = None if security is None else security.access(context.broker, caller, 0)
    found = await restartable_of(context, _every_topic if access is None else access.visibility)
    if context.authentication.is_required and not caller.is_authenticated:
        found = Restartable(found.restartable, UNSET)
    return Reply(200 if found.restartable else 503, msgspec.json.encode(found) + b"\n")


def _every_topic(name: str) -> bool:
    return True


OPERATIONS = (
    Operation(
        "GET",
        "/health/restartable",
        health_restartable,
        "Whether this node may be restarted now without stopping writes; 503 where it may not",
        "health",
        answer=Restartable,
        statuses=(503,),
        is_public=True,
    ),
)

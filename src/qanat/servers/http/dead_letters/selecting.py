"""Parameters that select dead letters, and their ranges of offsets."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from qanat.connection.dead_letters.reading import Ranges
from qanat.connection.dead_letters.selection import LetterSelection
from qanat.connection.offsets import list_bounds, list_offsets
from qanat.connection.records.filter_expression import Condition, WrongConditionError
from qanat.servers.http.gateway_cluster import GatewayCluster
from qanat.servers.http.problems import Problem
from qanat.servers.http.records.consume import time_of
from qanat.servers.http.records.record_parsing import PartitionNumber

WHERE_LENGTH_MAX = 1000
Where = Annotated[str, Meta(max_length=WHERE_LENGTH_MAX)]


def selection_of(
    origin: str | None,
    origin_partition: PartitionNumber | None,
    group: str | None,
    error: str | None,
    where: str | None,
) -> LetterSelection:
    """The selection; a condition may use everything but regular expressions, which may take forever."""
    try:
        condition = None if where is None else Condition(where, "where", is_bounded=True)
    except WrongConditionError as fault:
        raise Problem(400, str(fault), parameter="where") from None
    return LetterSelection(origin, origin_partition, group, error, condition)


async def ranges_of(
    cluster: GatewayCluster, topic: str, partition: int | None, begin: str | None, until: str | None
) -> Ranges:
    """First and end offsets, from times or offsets; nothing behind the end of now."""
    deadline = cluster.deadline()
    view = await cluster.topic(topic, deadline)
    bounds = await list_bounds(cluster, view, deadline, is_committed_only=True)
    if partition is not None:
        if partition not in bounds:
            raise Problem(404, f"topic {topic} has no partition {partition}: it has 0 to {len(bounds) - 1}")
        bounds = {partition: bounds[partition]}
    firsts = await _offsets(cluster, topic, begin, {number: first for number, (first, _) in bounds.items()}, bounds)
    ends = await _offsets(cluster, topic, until, {number: end for number, (_, end) in bounds.items()}, bounds)
    return {number: (firsts[number], max(firsts[number], ends[number])) for number in bounds}


async def _offsets(
    cluster: GatewayCluster, topic: str, text: str | None, otherwise: dict[int, int], bounds: Ranges
) -> dict[int, int]:
    """Offsets at a place: `offset:17`, or a time; within the bounds."""
    if text is None:
        return otherwise
    kind, separator, number = text.partition(":")
    if separator and kind == "offset":
        if not (number.isascii() and number.isdigit() and len(number) < 19):
            raise Problem(400, f"{text[:100]!r} should read offset:17, or be a time")
        return {at: min(max(int(number), first), end) for at, (first, end) in bounds.items()}
    moment = time_of(text)
    if moment < 0:
        return {at: first if moment == -2 else end for at, (first, end) in bounds.items()}
    found = await list_offsets(cluster, topic, dict.fromkeys(bounds, moment), cluster.deadline())
    return {at: found[at].offset if 0 <= found[at].offset < end else end for at, (_, end) in bounds.items()}

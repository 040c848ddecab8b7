"""Parameters that select dead letters, and their ranges of offsets."""

from __future__ import annotations

from typing import Annotated

import msgspec
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


class Wanted(msgspec.Struct, frozen=True):
    """Which letters: what listing and redriving ask for alike."""

    origin: str | None = None
    """Only letters from this topic."""
    origin_partition: PartitionNumber | None = None
    """Only letters from this partition of their topic."""
    group: str | None = None
    """Only letters that this group gave up."""
    error: str | None = None
    """Only letters whose reason has this text, in any case."""
    where: Where | None = None
    """Only letters that meet this condition, as of `qanat consume --where`, without `matches`."""
    partition: PartitionNumber | None = None
    """Only this partition of the topic of dead letters."""
    begin: str | None = msgspec.field(name="from", default=None)
    """Where to begin: `offset:17`, or a time in ISO 8601 or milliseconds."""
    until: str | None = None
    """Where to end (exclusive), likewise."""

    def selection(self) -> LetterSelection:
        """A condition may use everything but regular expressions, which may take forever."""
        try:
            condition = None if self.where is None else Condition(self.where, "where", is_bounded=True)
        except WrongConditionError as fault:
            raise Problem(400, str(fault), parameter="where") from None
        return LetterSelection(self.origin, self.origin_partition, self.group, self.error, condition)

    async def ranges(self, cluster: GatewayCluster, topic: str) -> Ranges:
        """First and end offsets, from times or offsets; nothing behind the end of now."""
        deadline = cluster.deadline()
        view = await cluster.topic(topic, deadline)
        bounds = await list_bounds(cluster, view, deadline, is_committed_only=True)
        if self.partition is not None:
            if self.partition not in bounds:
                raise Problem(404, f"topic {topic} has no partition {self.partition}: it has 0 to {len(bounds) - 1}")
            bounds = {self.partition: bounds[self.partition]}
        every_first = {number: first for number, (first, _) in bounds.items()}
        every_end = {number: end for number, (_, end) in bounds.items()}
        firsts = await _offsets(cluster, topic, self.begin, every_first, bounds)
        ends = await _offsets(cluster, topic, self.until, every_end, bounds)
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

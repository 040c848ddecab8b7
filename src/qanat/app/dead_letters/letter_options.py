"""Flags that select dead letters, for `qanat dlq list` and `qanat dlq redrive`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from qanat.app.records.consume_plan import ReadingPlan, places
from qanat.connection.cluster import Cluster
from qanat.connection.dead_letters.reading import LIMITS, Ranges
from qanat.connection.dead_letters.selection import LetterSelection
from qanat.connection.records.filter_expression import Condition


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class LetterOptions:
    """Which letters."""

    origin: str | None = None
    """Only letters from this topic."""
    origin_partition: int | None = None
    """Only letters from this partition of their topic."""
    group: Annotated[str | None, Parameter(name=["--group", "-g"])] = None
    """Only letters that this group gave up."""
    error: str | None = None
    """Only letters whose reason has this text, in any case."""
    where: Annotated[str | None, Parameter(name=["--where", "-w"], allow_leading_hyphen=True)] = None
    """Only letters that meet this condition, as in `qanat consume`."""
    begin: Annotated[str, Parameter(name=["--from", "--offset"], allow_leading_hyphen=True)] = "start"
    """Where to begin in the topic of dead letters: start, an offset, @2h; or a range, begin:end."""
    until: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    """Where to end (exclusive); the end of now unless it is earlier."""
    partitions: Annotated[list[int] | None, Parameter(name=["--partition", "-p"], negative="")] = None
    """Only this partition of the topic of dead letters, as often as needed."""

    def selection(self) -> LetterSelection:
        condition = Condition(self.where) if self.where is not None else None
        return LetterSelection(self.origin, self.origin_partition, self.group, self.error, condition)

    async def ranges(self, cluster: Cluster, topic: str) -> Ranges:
        """First and end offsets in every selected partition; nothing behind the end of now."""
        is_open = self.until is None and ":" not in self.begin.removeprefix("@")
        first, last = places(self.begin, self.until, is_to_end=is_open, tail=None)
        partitions = tuple(dict.fromkeys(self.partitions or ()))
        reading = await ReadingPlan(topic, first, last, self.begin, partitions, LIMITS).reading(cluster)
        return {number: (offset, max(offset, reading.ends[number])) for number, offset in reading.positions.items()}


EVERY = LetterOptions()

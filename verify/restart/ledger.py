"""The ledger of acknowledgements, and its comparison with a broker's contents after a restart.

Client threads only append: `mark` remembers the acknowledgements at one point in time.

A value names its sender, its partition and its number, so that the ledger need not remember what was sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

Place = tuple[str, int]
"""A topic and a partition."""

IDEMPOTENT = "once"
"""Prefix of senders that are idempotent: their records are never doubled or out of order."""


class Acknowledged(NamedTuple):
    """An acknowledged record; without an offset where the broker answered that it was a duplicate."""

    topic: str
    partition: int
    offset: int | None
    value: bytes


class Committed(NamedTuple):
    """An acknowledged offset commit of a group."""

    group: str
    topic: str
    partition: int
    offset: int


class Mark(NamedTuple):
    """The number of acknowledgements at one point in time."""

    records: int
    commits: int
    topics: int


@dataclass(slots=True)
class Contents:
    """What a broker has."""

    topics: list[str] = field(default_factory=list)
    records: dict[Place, list[tuple[int, bytes]]] = field(default_factory=dict)
    commits: dict[tuple[str, str, int], int] = field(default_factory=dict)


@dataclass(slots=True)
class Ledger:
    """All acknowledgements, in the order in which they arrived."""

    records: list[Acknowledged] = field(default_factory=list)
    commits: list[Committed] = field(default_factory=list)
    sent_commits: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """The highest offset that a group has tried to commit."""
    topics: list[str] = field(default_factory=list)

    def mark(self) -> Mark:
        return Mark(len(self.records), len(self.commits), len(self.topics))

    def problems(self, found: Contents, mark: Mark | None = None) -> list[str]:
        """Everything acknowledged up to the mark that the broker lacks, as text."""
        mark = mark or self.mark()
        return [
            *self._topic_problems(found, mark),
            *self._record_problems(found, mark),
            *_order_problems(found),
            *self._commit_problems(found, mark),
        ]

    def _topic_problems(self, found: Contents, mark: Mark) -> Iterator[str]:
        there = frozenset(found.topics)
        for topic in self.topics[: mark.topics]:
            if topic not in there:
                yield f"topic {topic} was created and is gone"

    def _record_problems(self, found: Contents, mark: Mark) -> Iterator[str]:
        held = {place: dict(records) for place, records in found.records.items()}
        values = {place: frozenset(records.values()) for place, records in held.items()}
        for topic, partition, offset, value in self.records[: mark.records]:
            there = held.get((topic, partition), {})
            if offset is None:
                if value not in values.get((topic, partition), frozenset()):
                    yield f"{value!r} was acknowledged and is gone from {topic}-{partition}"
            elif there.get(offset) != value:
                yield (
                    f"{value!r} was acknowledged at {topic}-{partition} offset {offset}, there is {there.get(offset)!r}"
                )

    def _commit_problems(self, found: Contents, mark: Mark) -> Iterator[str]:
        acknowledged: dict[tuple[str, str, int], int] = {}
        for group, topic, partition, offset in self.commits[: mark.commits]:
            acknowledged[group, topic, partition] = offset
        for key, least in acknowledged.items():
            now = found.commits.get(key)
            if now is None or now < least:
                yield f"{key} was committed at {least}, now it is {now}"
        for key, now in found.commits.items():
            records = found.records.get(key[1:], [])
            end_offset = records[-1][0] + 1 if records else 0
            if now > self.sent_commits.get(key, -1):
                yield f"{key} is committed at {now}, which no client sent"
            if now > end_offset:
                yield f"{key} is committed at {now}, and the partition ends at {end_offset}"


def value_of(sender: str, partition: int, number: int) -> bytes:
    return f"{sender}/{partition}/{number}/".encode().ljust(100, b".")


def _order_problems(found: Contents) -> Iterator[str]:
    """Records that are in the wrong partition, doubled, or in another order than they were sent."""
    for (topic, partition), records in found.records.items():
        last: dict[str, int] = {}
        offsets = [offset for offset, _ in records]
        if offsets != list(range(len(offsets))):
            yield f"{topic}-{partition} has offsets that are missing, double or out of order"
        for offset, value in records:
            sender, sent_to, number, _ = value.decode().split("/")
            if int(sent_to) != partition:
                yield f"{value!r} is in {topic}-{partition}"
            if sender.startswith(IDEMPOTENT) and int(number) <= last.get(sender, -1):
                yield f"{value!r} at {topic}-{partition} offset {offset} comes after number {last[sender]}"
            last[sender] = int(number)

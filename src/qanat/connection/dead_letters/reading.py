"""The letters of a topic, with what a redrive has marked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass

from qanat.connection.cluster import Cluster
from qanat.connection.committed import committed_positions
from qanat.connection.dead_letters.marks import Mark
from qanat.connection.dead_letters.selection import LetterSelection
from qanat.connection.deadline import Deadline
from qanat.connection.fetching import FetchLimits
from qanat.connection.records.topic_reading import Reading, read
from qanat.model.dead_letters import Letter, parse_letter
from qanat.model.ids import TopicPartition
from qanat.wire.records import Record

Ranges = Mapping[int, tuple[int, int]]
"""First and end offsets by partition."""
LIMITS = FetchLimits(max_bytes=4 * 1024 * 1024, is_committed_only=True)


def redrive_name(topic: str) -> str:
    """The transactional id of a topic's redrives, and the group that has their marks."""
    return f"qanat.redrive.{topic}"


@dataclass(frozen=True, slots=True)
class FoundLetter:
    """A letter of the topic."""

    partition: int
    record: Record
    letter: Letter
    is_redriven: bool


async def read_marks(
    cluster: Cluster, topic: str, partitions: Iterable[int], deadline: Deadline, *, is_stable: bool = False
) -> dict[int, Mark]:
    """The marks of these partitions; `is_stable` waits for the end of an open transaction."""
    wanted = [TopicPartition(topic, number) for number in partitions]
    found = await committed_positions(cluster, redrive_name(topic), deadline, only=wanted, is_stable=is_stable)
    return {at.partition: Mark.read(found[at].offset, found[at].metadata) if at in found else Mark() for at in wanted}


async def read_letters(
    cluster: Cluster, topic: str, ranges: Ranges, selection: LetterSelection
) -> AsyncIterator[list[FoundLetter]]:
    """Rounds of selected letters in these ranges; records that are no letters are left out."""
    marks = await read_marks(cluster, topic, ranges, cluster.deadline())
    async for records in read(cluster, reading_of(topic, ranges)):
        yield [
            FoundLetter(partition, record, letter, marks[partition].covers(record.offset))
            for partition, record in records
            if (letter := parse_letter(record.headers)) is not None and selection.wants(partition, record, letter)
        ]


def reading_of(topic: str, ranges: Ranges) -> Reading:
    """A reading of committed records in these ranges."""
    firsts = {partition: first for partition, (first, _) in ranges.items()}
    ends = {partition: end for partition, (_, end) in ranges.items()}
    return Reading(topic, firsts, ends, limits=LIMITS)

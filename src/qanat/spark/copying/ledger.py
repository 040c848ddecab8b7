"""The ledger of a copy: a topic with the topics that it wrote, and the map from old offsets to new ones.

Its records are JSON, with a key for each fact, so that compaction removes none:

    ["copy", "orders", ID]            {"source": "orders", "way": ["cluster", …]}
    ["start", "orders", ID, 0]        {"old": 1200}     where the copy of a partition begins, if not at its first record
    ["map", "orders", ID, 0, 1200]    {"runs": [[1200, 1204, 500], …]}     old offset, new offset, how many

ID is the topic's id: entries of a topic that was deleted and recreated do not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError, check
from qanat.connection.fetching import FetchLimits, fetch
from qanat.connection.offsets import EARLIEST, LATEST, list_offsets
from qanat.model.ids import TopicPartition
from qanat.spark.copying.translation import PartitionMap, Run

RUNS_AT_ONCE = 1000
_COMMITTED = FetchLimits(max_wait_ms=200, partition_bytes=8 * 1024 * 1024, is_committed_only=True)

LedgerEntry = tuple[str, str]
"""A key and a value of the topic."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A topic that is a copy of another."""

    topic: str
    id: str
    source: str
    route: tuple[str, ...]
    """The clusters that its records passed through, in order."""


@dataclass(slots=True)
class Ledger:
    """The content of the topic."""

    copies: dict[tuple[str, str], Copy] = field(default_factory=dict)
    """By name and id."""
    maps: dict[tuple[str, int], PartitionMap] = field(default_factory=dict)
    """By a topic's id and the partition."""

    starts: dict[tuple[str, int], int] = field(default_factory=dict)

    def apply(self, entry: LedgerEntry) -> None:
        """Apply one record of the topic."""
        key, value = json.loads(entry[0]), json.loads(entry[1])
        match key:
            case ["copy", topic, found]:
                self.copies[topic, found] = Copy(topic, found, value["source"], tuple(value["way"]))
            case ["start", _, found, partition]:
                self.starts[found, partition] = value["old"]
            case ["map", _, found, partition, _]:
                known = self.maps.setdefault((found, partition), PartitionMap())
                for run in value["runs"]:
                    known.add(Run(*run))

    def map_of(self, copy: Copy, partition: int) -> PartitionMap:
        return self.maps.get((copy.id, partition)) or PartitionMap()

    def positions(self, copies: Iterable[Copy]) -> dict[TopicPartition, int]:
        """The positions of these copies, by the old topic's name: after the last old offset that was copied."""
        by_id = {one.id: one for one in copies}
        every = {**self.starts, **{key: known.position for key, known in self.maps.items()}}
        return {
            TopicPartition(by_id[found].source, partition): position
            for (found, partition), position in every.items()
            if found in by_id
        }


def copy_entry(copy: Copy) -> LedgerEntry:
    return _text(["copy", copy.topic, copy.id]), _text({"source": copy.source, "way": list(copy.route)})


def start_entry(copy: Copy, partition: int, old: int) -> LedgerEntry:
    return _text(["start", copy.topic, copy.id, partition]), _text({"old": old})


def map_entries(copy: Copy, partition: int, runs: Iterable[Run]) -> Iterator[LedgerEntry]:
    every = list(runs)
    for begin in range(0, len(every), RUNS_AT_ONCE):
        some = every[begin : begin + RUNS_AT_ONCE]
        key = ["map", copy.topic, copy.id, partition, some[0].old]
        yield _text(key), _text({"runs": [list(run) for run in some]})


async def read_entries(cluster: Cluster, topic: str, deadline: Deadline) -> list[LedgerEntry]:
    """All committed entries of such a topic, in order."""
    first = (await list_offsets(cluster, topic, {0: EARLIEST}, deadline))[0].offset
    end = (await list_offsets(cluster, topic, {0: LATEST}, deadline))[0].offset
    entries: list[LedgerEntry] = []
    position = first
    while position < end:
        if deadline.is_over:
            raise OutOfTimeError(f"{topic} could not be read up to offset {end}: a transaction in it is still open")
        view = await cluster.topic(topic, deadline)
        link = await cluster.node_link(view.leaders[0], deadline)
        (answer,) = await fetch(link, topic, {0: position}, _COMMITTED, deadline)
        check(f"fetch of {topic}", answer.error_code)
        entries += [((one.key or b"").decode(), (one.value or b"{}").decode()) for one in answer.records]
        position = answer.next_offset
    return entries


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))

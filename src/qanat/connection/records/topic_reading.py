"""Topic reading: rounds of fetches, one per leader, from some offsets to others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from qanat.connection.cluster import Cluster, TopicLeaders
from qanat.connection.deadline import Deadline
from qanat.connection.faults import check
from qanat.connection.fetching import Fetched, FetchLimits, fetch
from qanat.connection.offsets import LATEST, by_leader, list_bounds, list_offsets
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.wire.records import Record


@dataclass(slots=True)
class Reading:
    """The next offset and the end of each partition; a partition without an end is followed."""

    topic: str
    positions: dict[int, int]
    ends: dict[int, int] = field(default_factory=dict)
    until_ms: int | None = None
    """A time in the future: a partition ends before its first record from then on, or at its end at that time."""
    limits: FetchLimits = field(default_factory=FetchLimits)

    def open_positions(self) -> dict[int, int]:
        """The positions of partitions that have not reached their end."""
        return {
            partition: offset
            for partition, offset in self.positions.items()
            if partition not in self.ends or offset < self.ends[partition]
        }

    def take(self, fetched: Fetched) -> list[Record]:
        """The fetched records before the end; advances the position."""
        self.positions[fetched.partition] = max(fetched.next_offset, self.positions[fetched.partition])
        if self.until_ms is not None and fetched.partition not in self.ends:
            late = (record.offset for record in fetched.records if record.timestamp >= self.until_ms)
            if (first_late := next(late, None)) is not None:
                self.ends[fetched.partition] = first_late
        end = self.ends.get(fetched.partition)
        return fetched.records if end is None else [record for record in fetched.records if record.offset < end]


async def read(cluster: Cluster, reading: Reading) -> AsyncIterator[list[tuple[int, Record]]]:
    """Rounds of records with their partitions. A caller that stops early sets the positions back."""
    view = await cluster.topic(reading.topic, cluster.deadline())
    while positions := reading.open_positions():
        if reading.until_ms is not None and time.time_ns() // 1_000_000 >= reading.until_ms:
            await _end_now(cluster, reading, reading.until_ms)
            positions = reading.open_positions()
        fetched, view = await _round(cluster, view, reading, positions)
        yield [(one.partition, record) for one in fetched for record in reading.take(one)]


async def _end_now(cluster: Cluster, reading: Reading, until_ms: int) -> None:
    """Set the end of every open partition at `until_ms`, which has passed."""
    deadline = cluster.deadline()
    waiting = [partition for partition in reading.positions if partition not in reading.ends]
    late = await list_offsets(cluster, reading.topic, dict.fromkeys(waiting, until_ms), deadline)
    ends = await list_offsets(cluster, reading.topic, dict.fromkeys(waiting, LATEST), deadline)
    for partition in waiting:
        reading.ends[partition] = late[partition].offset if late[partition].offset >= 0 else ends[partition].offset
    reading.until_ms = None


async def _round(
    cluster: Cluster, view: TopicLeaders, reading: Reading, positions: dict[int, int]
) -> tuple[list[Fetched], TopicLeaders]:
    deadline = cluster.deadline()
    latest = [view]

    async def attempt() -> list[Fetched]:
        try:
            return await _fetch_all(cluster, latest[0], reading, positions, deadline)
        except QanatError:
            latest[0] = await cluster.topic(reading.topic, deadline)
            raise

    return await cluster.persist(attempt, deadline), latest[0]


async def _fetch_all(
    cluster: Cluster, view: TopicLeaders, reading: Reading, positions: dict[int, int], deadline: Deadline
) -> list[Fetched]:
    leaders = by_leader(view, positions)

    async def one(leader: int, partitions: list[int]) -> list[Fetched]:
        link = await cluster.node_link(leader, deadline)
        wanted = {partition: positions[partition] for partition in partitions}
        return await fetch(link, reading.topic, wanted, reading.limits, deadline)

    found = [part for parts in await asyncio.gather(*(one(*item) for item in leaders.items())) for part in parts]
    if any(part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE for part in found):
        bounds = await list_bounds(cluster, view, deadline)
        for part in found:
            if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                # Records were removed meanwhile: continue with the oldest one left.
                positions[part.partition] = reading.positions[part.partition] = bounds[part.partition][0]
        found = [part for part in found if part.error_code != ErrorCode.OFFSET_OUT_OF_RANGE]
    for part in found:
        check(f"topic {reading.topic} partition {part.partition}", part.error_code)
    return sorted(found, key=lambda part: part.partition)

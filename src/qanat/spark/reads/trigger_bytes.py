"""The end of a micro-batch with a limit in bytes (`maxBytesPerTrigger`).

The bytes are those of batches, as the log stores them and as executors fetch them; a part of a batch counts for its
part of the bytes.

Rule 1: a micro-batch never exceeds the limit, unless its first record alone does: then it has that one.
Rule 2: partitions get as many bytes each, and at least a record; the share that one does not need goes to the others.
Rule 3: where every next record is larger than the limit, the partition that is furthest behind advances, so that all
        advance over time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from qanat.connection.batch_sizes import SizedBatch
from qanat.model.ids import TopicPartition
from qanat.spark.offsets import OffsetRange, Offsets, ranges

LEAST_BYTES, MOST_BYTES = 64 * 1024, 4 * 1024 * 1024
"""Bytes of one partition that are examined at a time."""
AT_ONCE = 8
"""Partitions that are examined at the same time: memory holds so many times the most bytes."""

Look = Callable[[OffsetRange, int], Awaitable[list[SizedBatch]]]
"""Returns the first batches of a range, about so many bytes and at least one."""


@dataclass(slots=True)
class _Taking:
    """The part of a micro-batch in one partition."""

    left: OffsetRange
    taken_bytes: int = 0
    is_full: bool = False
    seen: deque[SizedBatch] = field(default_factory=deque)
    """Batches that were examined and not taken yet."""
    seen_end: int = 0

    def take(self, most_bytes: int) -> int:
        """Take the next batch, or as many of its records as fit; returns their bytes."""
        batch = self.seen[0]
        if batch.size <= most_bytes:
            self.seen.popleft()
            return self._advance(batch.next_offset, batch.size)
        self.is_full = True
        records = batch.next_offset - self.left.start
        count = records * most_bytes // batch.size
        if not count:
            return 0
        # Rounded up, so that the parts of a batch are never more than their limits.
        size = -(-batch.size * count // records)
        self.seen[0] = batch._replace(size=batch.size - size)
        return self._advance(self.left.start + count, size)

    def take_record(self) -> None:
        """Take one record of the next batch that has any, however large it is."""
        batch = self.seen[0]
        self._advance(self.left.start + 1 if batch.size else batch.next_offset, 0)

    def _advance(self, start: int, size: int) -> int:
        self.left = self.left._replace(start=start)
        self.taken_bytes += size
        return size

    @property
    def is_open(self) -> bool:
        return not self.is_full and self.left.size > 0


async def cut_by_bytes(start: Offsets, end: Offsets, max_bytes: int, look: Look) -> dict[TopicPartition, int]:
    """The end moved back so that at most `max_bytes` lie before it."""
    takings = [_Taking(one, seen_end=one.start) for one in ranges(start, end)]
    for share in (max_bytes // max(1, len(takings)), max_bytes):
        # First everyone's own share, then what is left of all.
        for one in takings:
            one.is_full = False
        while open_ones := [one for one in takings if one.is_open]:
            left_bytes = max_bytes - sum(one.taken_bytes for one in takings)
            await _look_at_more(open_ones, left_bytes, look)
            one = min(open_ones, key=lambda one: one.taken_bytes)  # The first of several, in the order of partitions.
            one.take(min(left_bytes, share - one.taken_bytes))
    behind = [one for one in takings if one.left.size > 0]
    if behind and not any(one.taken_bytes for one in takings):
        max(behind, key=lambda one: one.left.size).take_record()
    return {**end, **{one.left.at: one.left.start for one in takings}}


async def _look_at_more(takings: list[_Taking], left_bytes: int, look: Look) -> None:
    """Make sure that the next batch of each is known."""
    unseen = [one for one in takings if not one.seen]
    share = min(max(left_bytes // len(takings), LEAST_BYTES), MOST_BYTES)
    turn = asyncio.Semaphore(AT_ONCE)

    async def look_at(one: _Taking) -> list[SizedBatch]:
        async with turn:
            return await look(one.left._replace(start=one.seen_end), share)

    found = await asyncio.gather(*map(look_at, unseen))
    for one, batches in zip(unseen, found, strict=True):
        one.seen.extend(batches)
        one.seen_end = batches[-1].next_offset

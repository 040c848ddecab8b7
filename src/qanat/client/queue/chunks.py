"""Fetched records of one partition, as bytes: they become `Record`s where the user polls, not on the I/O loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from qanat.client.records import Record
from qanat.connection.fetching import INFLATED_BYTES_MAX, whole_batches
from qanat.wire.batch_header import BatchHeader, Buffer, read_header
from qanat.wire.record_reader import build_records
from qanat.wire.records import open_batch

if TYPE_CHECKING:
    from qanat.client.queue.locks import Lock, PartitionLocks
    from qanat.wire.kafka.messages.share_fetch import AcquiredRecords, PartitionData


class AcquiredBatch:
    """The acquired records of one batch."""

    __slots__ = ("counts", "header", "offsets", "payload")

    def __init__(self, header: BatchHeader, payload: Buffer, acquired: Sequence[AcquiredRecords]) -> None:
        self.header = header
        self.payload = payload
        self.counts: int | dict[int, int] = _counts(acquired, header.base_offset, header.next_offset)
        """Delivery counts by offset; one number where a single range has the whole batch."""
        offsets: Sequence[int] = range(header.base_offset, header.next_offset)
        if header.record_count != len(offsets):  # Compacted: only the records themselves say which there are.
            offsets = [record.offset for record in self._all("", 0, 0)]
        counts = self.counts
        self.offsets = offsets if isinstance(counts, int) else [offset for offset in offsets if offset in counts]

    def records(self, topic: str, partition: int) -> list[Record[Any, Any]]:
        counts = self.counts
        if isinstance(counts, int):
            return self._all(topic, partition, counts)
        found = [record for record in self._all(topic, partition, 0) if record.offset in counts]
        for record in found:
            record.delivery_count = counts[record.offset]
        return found

    def _all(self, topic: str, partition: int, count: int) -> list[Record[Any, Any]]:
        header, is_fixed = self.header, self.header.is_log_append_time
        return build_records(
            self.payload,
            header.record_count,
            header.last_offset_delta,
            0,
            header.base_offset,
            header.max_timestamp if is_fixed else header.base_timestamp,
            is_fixed,
            Record,
            topic,
            partition,
            count,
            header.leader_epoch,
        )


class Chunk:
    """Acquired batches under one lock, of whose records the user may have taken some."""

    __slots__ = ("_batches", "_left", "_losses", "_opened", "_taken", "lock", "locks")

    def __init__(self, locks: PartitionLocks, lock: Lock, batches: Iterable[AcquiredBatch]) -> None:
        self.locks = locks
        self.lock = lock
        self._batches = deque(batches)
        self._left = sum(len(batch.offsets) for batch in self._batches)
        self._opened: list[Record[Any, Any]] = []
        """Records of the batch before those, of which so many were taken."""
        self._taken = 0
        self._losses = locks.losses

    def __len__(self) -> int:
        return self._left

    def take(self, count: int, now: float) -> list[Record[Any, Any]]:
        """Hand out the next records as bytes; those whose lock was lost in the buffer are left out.

        No lock may be lost meanwhile. What is left keeps the lock of the fetch: its time in the user's hands has not
        begun.
        """
        found = self._next(count)
        while self._left and len(found) < count:
            found = [*found, *self._next(count - len(found))]
        self.locks.hand_out(found)
        if not self._left:
            self.lock.handed_at = now
        elif found:
            handed = self.lock.handed_out(now)
            self.locks.held.update(dict.fromkeys([record.offset for record in found], handed))
        return found

    def _next(self, count: int) -> list[Record[Any, Any]]:
        """Records of one batch."""
        if self._taken == len(self._opened):
            self._opened = self._batches[0].records(self.locks.topic, self.locks.partition)
            self._batches.popleft()
            self._taken = 0
        some = self._opened
        if self._taken or count < len(some):
            some = some[self._taken : self._taken + count]
        self._taken += len(some)
        self._left -= len(some)
        if self._losses == self.locks.losses:
            return some
        held, lock = self.locks.held, self.lock
        return [record for record in some if held.get(record.offset) is lock]


def acquired_batches(data: PartitionData) -> tuple[list[AcquiredBatch], list[int]]:
    """The acquired records of an answer, and the acquired offsets that have no record."""
    acquired = data.acquired_records
    batches: list[AcquiredBatch] = []
    if acquired and data.records is not None:
        for batch in whole_batches(data.records):
            if not read_header(batch).is_control:
                header, payload = open_batch(batch, INFLATED_BYTES_MAX)
                batches.append(AcquiredBatch(header, payload, acquired))
    total = sum(one.last_offset - one.first_offset + 1 for one in acquired)
    if total == sum(len(batch.offsets) for batch in batches):
        return batches, []
    found = {offset for batch in batches for offset in batch.offsets}
    return batches, [
        offset for one in acquired for offset in range(one.first_offset, one.last_offset + 1) if offset not in found
    ]


def _counts(acquired: Sequence[AcquiredRecords], first: int, end: int) -> int | dict[int, int]:
    """The delivery count of the offsets of a batch: one where a single range has them all."""
    for one in acquired:
        if one.first_offset <= first and end <= one.last_offset + 1:
            return one.delivery_count
    return {
        offset: one.delivery_count
        for one in acquired
        for offset in range(max(first, one.first_offset), min(end, one.last_offset + 1))
    }

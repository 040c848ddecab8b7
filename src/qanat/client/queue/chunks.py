"""Fetched records of one partition, as bytes: they become `Record`s where the user polls, not on the I/O loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from qanat.client.records import Record
from qanat.connection.fetching import INFLATED_BYTES_MAX, whole_batches
from qanat.wire.batch_header import read_header
from qanat.wire.record_reader import split_records
from qanat.wire.records import open_batch, wrapped

if TYPE_CHECKING:
    from qanat.client.queue.locks import Lock, PartitionLocks
    from qanat.wire.kafka.messages.share_fetch import AcquiredRecords, PartitionData
    from qanat.wire.record_reader import RawRecord

_FAR_MS = 2**61
"""Timestamps below this do not overflow by what records add."""

Row = tuple[int, int, int, "RawRecord"]
"""Offset, timestamp, delivery count, and the record's bytes."""


class Chunk:
    """Rows under one lock, of which the user may have taken some."""

    __slots__ = ("lock", "locks", "rows", "taken")

    def __init__(self, locks: PartitionLocks, lock: Lock, rows: Sequence[Row]) -> None:
        self.locks = locks
        self.lock = lock
        self.rows = rows
        self.taken = 0

    def __len__(self) -> int:
        return len(self.rows) - self.taken

    def take(self, count: int) -> list[Record[Any, Any]]:
        """The next records as bytes; those whose lock was lost in the buffer are left out."""
        rows = self.rows[self.taken : self.taken + count]
        self.taken += len(rows)
        topic, partition, held, lock = self.locks.topic, self.locks.partition, self.locks.held, self.lock
        return [
            Record(
                topic,
                partition,
                offset,
                timestamp,
                raw[3],
                raw[4],
                tuple([(name.decode("utf-8", "replace"), value) for name, value in raw[5]]) if raw[5] else (),
                delivery_count,
            )
            for offset, timestamp, delivery_count, raw in rows
            if held.get(offset) is lock
        ]


def acquired_rows(data: PartitionData) -> tuple[list[Row], list[int]]:
    """The acquired records of an answer, and the acquired offsets that have no record."""
    rows: list[Row] = []
    acquired = data.acquired_records
    if not acquired or data.records is None:
        return [], [offset for one in acquired for offset in range(one.first_offset, one.last_offset + 1)]
    for batch in whole_batches(data.records):
        if read_header(batch).is_control:
            continue
        header, payload = open_batch(batch, INFLATED_BYTES_MAX)
        base, base_ms = header.base_offset, header.base_timestamp
        fixed = header.max_timestamp if header.is_log_append_time else None
        counts = _counts(acquired, base, header.next_offset)
        if isinstance(counts, int) and fixed is None and 0 <= base_ms < _FAR_MS:
            raws = split_records(payload, header.record_count, header.last_offset_delta)
            rows += [(base + raw[2], base_ms + raw[1], counts, raw) for raw in raws]
            continue
        for raw in split_records(payload, header.record_count, header.last_offset_delta):
            offset = base + raw[2]
            count = counts if isinstance(counts, int) else counts.get(offset, 0)
            if count:
                rows.append((offset, wrapped(base_ms + raw[1]) if fixed is None else fixed, count, raw))
    total = sum(one.last_offset - one.first_offset + 1 for one in acquired)
    if total == len(rows):
        return rows, []
    found = {row[0] for row in rows}
    return rows, [
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

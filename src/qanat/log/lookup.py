"""Finding records by time: which is the first as new as a timestamp, which is the newest.

The time tables narrow it down to one batch; that one is opened, so these are
worth a worker when it may be large.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from qanat.log.files import Buffer
from qanat.log.partition_log import PartitionLog
from qanat.wire.records import decode_records


class TimestampedOffset(NamedTuple):
    """A record's place in time and in the log."""

    timestamp: int
    offset: int


def batches_as_new(log: PartitionLog, timestamp: int) -> Iterator[memoryview]:
    """Batches with a record as new as `timestamp`, oldest first: the first of them nearly always has the answer."""
    for segment in log.segments[log.segment_index(log.log_start_offset) :]:
        if segment.max_timestamp < timestamp:
            continue
        if (index := log.segment_index(segment.base_offset)) < len(log.segments) and log.segments[index] is segment:
            log.usable(index)
        for position, header in segment.batches(segment.position_of_timestamp(timestamp)):
            if header.newest_timestamp >= timestamp:
                yield segment.batch(position)


def first_as_new(batch: Buffer, timestamp: int, first_offset: int, limit_bytes: int) -> TimestampedOffset | None:
    """The first record of a batch as new as `timestamp`, at or after `first_offset`. Safe on any thread."""
    for record in decode_records(batch, limit_bytes):
        if record.timestamp >= timestamp and record.offset >= first_offset:
            return TimestampedOffset(record.timestamp, record.offset)
    return None


def find_timestamp(log: PartitionLog, timestamp: int, limit_bytes: int) -> TimestampedOffset | None:
    """The first record at or after the log's start whose timestamp is at least `timestamp`."""
    for batch in batches_as_new(log, timestamp):
        found = first_as_new(batch, timestamp, log.log_start_offset, limit_bytes)
        if found is not None:
            return found
    return None


def newest_timestamp(log: PartitionLog) -> int:
    """The largest timestamp in the log, -1 where it has none: looking it up answers Kafka's MAX_TIMESTAMP."""
    return max(segment.max_timestamp for segment in log.segments)

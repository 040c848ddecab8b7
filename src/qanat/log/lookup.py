"""Finding records by time: which is the first as new as a timestamp, which is the newest.

The time tables narrow it down to one batch; that one is opened, so these are
worth a worker when it may be large.
"""

from __future__ import annotations

from typing import NamedTuple

from qanat.log.partition_log import PartitionLog
from qanat.log.segment import Segment
from qanat.wire.batch_header import read_header
from qanat.wire.records import decode_records


class TimestampedOffset(NamedTuple):
    """A record's place in time and in the log."""

    timestamp: int
    offset: int


def find_timestamp(log: PartitionLog, timestamp: int, limit_bytes: int) -> TimestampedOffset | None:
    """The first record at or after the log's start whose timestamp is at least `timestamp`."""
    for index in range(log.segment_index(log.log_start_offset), len(log.segments)):
        segment = log.usable(index)
        position = segment.position_of_timestamp(timestamp)
        while position < segment.size:
            header = read_header(segment.view(), position)
            if header.max_timestamp >= timestamp:
                found = _first_in_batch(segment, position, timestamp, log.log_start_offset, limit_bytes)
                if found is not None:
                    return found
            position += header.size
    return None


def _first_in_batch(
    segment: Segment, position: int, timestamp: int, first_offset: int, limit_bytes: int
) -> TimestampedOffset | None:
    for record in decode_records(segment.batch(position), limit_bytes):
        if record.timestamp >= timestamp and record.offset >= first_offset:
            return TimestampedOffset(record.timestamp, record.offset)
    return None


def find_newest(log: PartitionLog, limit_bytes: int) -> TimestampedOffset | None:
    """The record with the largest timestamp (Kafka's MAX_TIMESTAMP); the first of them where several share it."""
    newest = max((segment.max_timestamp for segment in log.segments), default=-1)
    return find_timestamp(log, newest, limit_bytes) if newest >= 0 else None

"""Offsets by timestamp: the first record as new as a timestamp, and the newest record.

The time tables narrow the search down to one batch, which is opened. `find_timestamp_now` does
that where everything is in memory and small; `TimestampJob` does it in a worker.
"""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

from qanat.log.files import Buffer
from qanat.log.log_reads import Unready
from qanat.log.page_warmup import is_resident
from qanat.log.partition_log import PartitionLog
from qanat.log.segments.batch_scan import Damage
from qanat.log.segments.index_tables import OpenTables, SealedTables
from qanat.log.segments.indexes import offset_before_timestamp, position_before
from qanat.log.segments.segment import BatchNotFoundError, Segment
from qanat.log.state_replay import walk_sealed
from qanat.wire.batch_header import read_header
from qanat.wire.columns import decode_columns
from qanat.wire.records import decode_records

_WALKED_NOW_BYTES = 64 * 1024
"""How far `find_timestamp_now` walks: it gets this far only where timestamps do not ascend with offsets."""
_OPENED_NOW_BYTES = 16 * 1024
"""Batches up to this size are opened at once: a worker costs more. A compressed batch's size says nothing."""


class TimestampedOffset(NamedTuple):
    """A record's timestamp and offset."""

    timestamp: int
    offset: int


def _candidates(log: PartitionLog, timestamp: int) -> list[Segment]:
    """Segments with a record as new as `timestamp`, oldest first: the first of them nearly always has the answer."""
    return [one for one in log.segments[log.segment_index(log.log_start_offset) :] if one.max_timestamp >= timestamp]


def first_at_or_after(batch: Buffer, timestamp: int, first_offset: int, limit_bytes: int) -> TimestampedOffset | None:
    """The first record of a batch as new as `timestamp`, at or after `first_offset`. Safe on any thread."""
    if read_header(batch).is_control:
        found = [(record.offset, record.timestamp) for record in decode_records(batch, limit_bytes)]
    else:
        # As columns: a small batch may decompress to millions of headers, and none of them is needed.
        columns = decode_columns([batch], limit_bytes=limit_bytes)
        found = list(zip(columns.offsets, columns.timestamps, strict=True))
    for offset, time in found:
        if time >= timestamp and offset >= first_offset:
            return TimestampedOffset(time, offset)
    return None


def find_timestamp(log: PartitionLog, timestamp: int, limit_bytes: int) -> TimestampedOffset | None:
    """The first record at or after the log's start whose timestamp is at least `timestamp`.

    For callers that may wait for the disk.
    """
    for segment in _candidates(log, timestamp):
        log.usable(log.segments.index(segment))
        for position, header in segment.batches(segment.position_of_timestamp(timestamp)):
            if header.newest_timestamp >= timestamp:
                found = first_at_or_after(segment.batch(position), timestamp, log.log_start_offset, limit_bytes)
                if found is not None:
                    return found
    return None


def find_timestamp_now(log: PartitionLog, timestamp: int, limit_bytes: int) -> TimestampedOffset | Unready | None:
    """`find_timestamp` from memory alone; `Unready` where memory is not enough."""
    for segment in _candidates(log, timestamp):
        tables = segment.tables
        if segment.damage or (isinstance(tables, SealedTables) and not tables.are_all_resident()):
            return Unready(segment, segment.base_offset)
        first_offset = segment.base_offset + offset_before_timestamp(tables.times, timestamp)
        if not is_resident(segment, first_offset, _WALKED_NOW_BYTES):
            return Unready(segment, first_offset)
        try:
            found = _walk_now(log, segment, segment.position_of(first_offset), timestamp, limit_bytes)
        except BatchNotFoundError:
            return Unready(segment, first_offset, is_damaged=True)
        if found is not None:
            return found
    return None


def _walk_now(
    log: PartitionLog, segment: Segment, position: int, timestamp: int, limit_bytes: int
) -> TimestampedOffset | Unready | None:
    stop = position + _WALKED_NOW_BYTES
    while position < segment.size:
        end = segment.batch_end(position)
        if end > stop:
            return Unready(segment, segment.base_offset)
        header = read_header(segment.view(), position)
        if header.newest_timestamp >= timestamp:
            if end - position > _OPENED_NOW_BYTES or header.codec:
                return Unready(segment, segment.base_offset)
            found = first_at_or_after(segment.view()[position:end], timestamp, log.log_start_offset, limit_bytes)
            if found is not None:
                return found
        position = end
    return None


class TimestampJob:
    """Searches for the first record as new as a timestamp by reading, and verifies checksums."""

    def __init__(self, log: PartitionLog, timestamp: int, limit_bytes: int) -> None:
        self._timestamp = timestamp
        self._limit_bytes = limit_bytes
        self._log_start_offset = log.log_start_offset
        self._segments = _candidates(log, timestamp)
        # Damage is entered in copies, and tables in memory grow meanwhile: they are read now.
        self._walked = [copy(segment) for segment in self._segments]
        self._starts = [
            None if isinstance(one.tables, SealedTables) else self._start(one, one.tables.offsets, one.tables.times)
            for one in self._segments
        ]
        self._opened: list[tuple[SealedTables, OpenTables]] = []
        self.found: TimestampedOffset | None = None
        self.damage: tuple[Damage, ...] = ()

    def run(self) -> None:
        for segment, start in zip(self._walked, self._starts, strict=True):
            position = self._start_of_sealed(segment) if start is None else start
            for _, header, batch in walk_sealed(segment, position):
                if header.newest_timestamp >= self._timestamp:
                    self.found = first_at_or_after(batch, self._timestamp, self._log_start_offset, self._limit_bytes)
                    if self.found is not None:
                        return

    def _start(self, segment: Segment, offsets: Buffer, times: Buffer) -> int:
        position = position_before(offsets, offset_before_timestamp(times, self._timestamp))
        return position if position < segment.size else 0

    def _start_of_sealed(self, segment: Segment) -> int:
        """Where to start reading; at the beginning where the tables are lost."""
        assert isinstance(segment.tables, SealedTables), "tables in memory were asked before"
        held = segment.tables.held
        if held is None:
            held = segment.tables.open()
            if held is None:
                return 0
            self._opened.append((segment.tables, held))
        return self._start(segment, held.read_offsets(), held.read_times())

    def finish(self) -> None:
        for tables, opened in self._opened:
            tables.hold(opened)
        for segment, walked in zip(self._segments, self._walked, strict=True):
            self.damage += segment.note_damage(walked.damage)


def newest_timestamp(log: PartitionLog) -> int:
    """The largest timestamp in the log, -1 where it has none: looking it up answers Kafka's MAX_TIMESTAMP."""
    return max(segment.max_timestamp for segment in log.segments)

"""In-place truncation: removing the last batches of the active segment without a copy.

A follower of a new leader often has a batch or two that the leader has not. Writing a
segment of a gigabyte again for that would take longer than the election.

Rule 1: bytes that a view has shown are not truncated, nor any below the high watermark: the caller checks it.
Rule 2: the owner's thread removes the batches (`InPlaceTruncation.begin`) before a worker truncates the file
        (`InPlaceTruncation.truncate_file`): readers in between see the shorter segment. Workers that read the file have
        finished before: to them it would look damaged.
Rule 3: in an encrypted file no position is written twice with one key: it is not truncated in place.
Rule 4: a truncation that a power loss undoes leaves a longer log of sound batches, which the follower truncates
        again.
"""

from __future__ import annotations

from msgspec import Struct

from qanat.log.segments.batch_scan import read_batches
from qanat.log.segments.header_digest import EMPTY, extended
from qanat.log.segments.index_tables import GrowingTables
from qanat.log.segments.indexes import last_time_offset, last_timestamp, position_before
from qanat.log.segments.segment import Segment
from qanat.model.ids import NO_TIMESTAMP
from qanat.wire.batch_header import BatchHeader


class InPlaceTruncation(Struct, frozen=True):
    """Where a segment will end, and the batches that stay in its last stretch."""

    segment: Segment
    position: int
    next_offset: int
    stays: tuple[tuple[int, BatchHeader], ...]
    """Position and header of the batches since the last one in the tables."""
    digest: int | None
    """The header digest of the batches that stay; None if it is not known."""
    has_producers: bool
    """Whether a removed batch has a producer id, so that producer state changes too."""

    def begin(self) -> None:
        segment, tables = self.segment, self.segment.tables
        assert isinstance(tables, GrowingTables), "a sealed segment never changes"
        tables.truncate(self.position, self.next_offset)
        segment.max_timestamp = last_timestamp(tables.times) if tables.times else NO_TIMESTAMP
        segment.max_timestamp_offset = segment.base_offset + max(last_time_offset(tables.times), 0)
        segment.last_batch_position = 0
        segment.last_batch_offset = segment.last_batch_end_offset = segment.base_offset
        for position, header in self.stays:
            if header.newest_timestamp > segment.max_timestamp:
                segment.max_timestamp = header.newest_timestamp
                segment.max_timestamp_offset = header.last_offset
            segment.last_batch_position = position
            segment.last_batch_offset = header.base_offset
            segment.last_batch_end_offset = header.next_offset
        segment.size, segment.next_offset = self.position, self.next_offset
        segment.is_digested = segment.is_digested and self.digest is not None
        segment.digest = EMPTY if self.digest is None else self.digest
        if segment.read_position >= self.position:
            segment.read_offset, segment.read_position = segment.base_offset, 0

    def truncate_file(self) -> None:
        """Truncate the file, durably."""
        self.segment.file.truncate(self.position)
        self.segment.file.sync()


def plan_in_place_truncation(segment: Segment, end_offset: int) -> InPlaceTruncation | None:
    """How to end a segment before the batch that holds `end_offset`; None where it is sealed, damaged or encrypted.

    Reads the file, so it belongs in a worker.
    """
    if not isinstance(segment.tables, GrowingTables) or segment.is_sealed or segment.damage:
        return None
    if segment.file.key_id is not None:
        return None
    start = position_before(segment.tables.offsets, end_offset - 1 - segment.base_offset)
    stays: list[tuple[int, BatchHeader]] = []
    position = walked = start
    next_offset, has_producers = segment.base_offset, False
    digest = segment.tables.digest_before(start)
    for at, header, _ in read_batches(segment.file, start, segment.size, segment.base_offset):
        if position == at and header.next_offset <= end_offset:
            stays.append((at, header))
            digest = None if digest is None else extended(digest, header.base_offset, header.leader_epoch)
            position, next_offset = at + header.size, header.next_offset
        has_producers |= position <= at and header.producer_id >= 0
        walked = at + header.size
    if walked != segment.size:
        return None
    return InPlaceTruncation(segment, position, next_offset, tuple(stays), digest, has_producers)

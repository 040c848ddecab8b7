"""Taking back the last batches of the segment that is written, in place.

Whoever follows another leader than before often has a batch or two that the new one has not. To write a
segment of a gigabyte again for that would take longer than the election did.

Rule 1: bytes that a view has shown are not cut, nor any that consumers may have been told of: the caller sees to it.
Rule 2: the owner's thread forgets the batches (`InPlaceTruncation.begin`) before a worker cuts the file (`InPlaceTruncation.cut`): whoever
        looks in between sees the shorter segment. Workers that read the file were waited for before: to them
        it would look damaged.
Rule 3: where a file is encrypted, no position of it is written twice with one key: it is not cut here.
Rule 4: a cut that a power loss undoes leaves a longer log of sound batches, which the leader has cut again.
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
    """Where a segment will end, and what the last stretch of it holds that stays."""

    segment: Segment
    position: int
    next_offset: int
    stays: tuple[tuple[int, BatchHeader], ...]
    """Position and header of the batches since the last one that the tables know."""
    digest: int | None
    """The header digest of what stays; None if it is not known."""
    has_producers: bool
    """Whether a batch that goes came from a producer with an id, so that its state goes back too."""

    def begin(self) -> None:
        segment, tables = self.segment, self.segment.tables
        assert isinstance(tables, GrowingTables), "a sealed segment never changes"
        tables.retreat(self.position, self.next_offset)
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

    def cut(self) -> None:
        """Make the file as short, and that durable."""
        self.segment.file.cut(self.position)
        self.segment.file.sync()


def plan_in_place_truncation(segment: Segment, end_offset: int) -> InPlaceTruncation | None:
    """How to end a segment before the batch that holds `end_offset`; None where it is sealed, damaged or encrypted.

    Reads the file, so it is for a worker.
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

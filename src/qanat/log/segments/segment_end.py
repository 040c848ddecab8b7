# cython: language_level=3, annotation_typing=False
"""The end of a segment: what an append reads and changes there.

`Segment` builds on it. Compiled and interpreted like `log.append_state`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.log.segments.header_digest import EMPTY, extended
from qanat.log.segments.index_tables import GrowingTables, SealedTables, add_digest
from qanat.model.errors import QanatError
from qanat.model.ids import NO_TIMESTAMP

if TYPE_CHECKING:
    from qanat.log.files import File

MAX_RELATIVE_OFFSET = 2**31 - 1


class SegmentEnd:
    """The end of a segment: its extent, and the latest batch."""

    __slots__ = (
        "base_offset",
        "digest",
        "file",
        "first_append_ms",
        "is_dense",
        "is_digested",
        "last_batch_end_offset",
        "last_batch_offset",
        "last_batch_position",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "size",
        "tables",
    )

    def __init__(self, base_offset: int, file: File, interval_bytes: int) -> None:
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.file = file
        self.size = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.first_append_ms: int | None = None
        self.last_batch_position = 0
        """The position and offsets of the latest batch: consumers at the end of the log read nothing else."""
        self.last_batch_offset = base_offset
        self.last_batch_end_offset = base_offset
        self.digest = EMPTY
        """The header digest of all batches (`header_digest`); valid while `is_digested`."""
        self.is_digested = True
        self.is_dense = True
        """Whether each batch starts where the one before it ends."""
        self.tables: GrowingTables | SealedTables = GrowingTables(base_offset, interval_bytes)

    def is_full(self, size: int, last_offset: int, now_ms: int, segment_bytes: int, age_ms: int) -> bool:
        """Whether a batch must go into the next segment: for its size, its distance, or the age of this one."""
        if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if not self.size:
            return False
        is_old = self.first_append_ms is not None and now_ms - self.first_append_ms >= age_ms
        return is_old or self.size + size > segment_bytes

    def append_fast(
        self, batch: memoryview, size: int, base_offset: int, last_offset: int, leader_epoch: int, max_timestamp: int
    ) -> None:
        """Write one batch at the end. A write that fails leaves the segment as it was."""
        try:
            self.file.write((batch,), self.size)
        except QanatError:
            self.file.truncate(self.size)
            raise
        self.enter(self.size, size, base_offset, last_offset, leader_epoch, max_timestamp)

    def enter(
        self, position: int, size: int, base_offset: int, last_offset: int, leader_epoch: int, max_timestamp: int
    ) -> None:
        """Add a batch that is in the file at `position` to the tables and to the segment's extent."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        assert isinstance(self.tables, GrowingTables), "a sealed segment never changes"
        tables = self.tables
        if tables.bytes_since_entry > tables.interval_bytes:
            tables.digests += add_digest(self.digest)
            tables.enter(position, size, last_offset, self.max_timestamp, self.max_timestamp_offset)
        else:
            tables.bytes_since_entry += size
        if base_offset != self.next_offset:
            self.is_dense = False
        self.digest = extended(self.digest, base_offset, leader_epoch)
        self.last_batch_position = position
        self.last_batch_offset = self.next_offset
        self.size = position + size
        self.next_offset = self.last_batch_end_offset = last_offset + 1

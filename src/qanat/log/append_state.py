# cython: language_level=3, annotation_typing=False
"""Where a log grows: what an append asks of its log and of the last segment, and what it changes there.

`PartitionLog` and `Segment` are made on these, and do the rest. A client that waits for each answer waits mostly for
the interpreter; compiled (like `wire.record_reader`), the way of a plain batch is a few steps on numbers in C.

Rule: what these call of the classes made on them is called by name, so that it can be replaced there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from qanat.log.segments.header_digest import EMPTY, extended
from qanat.log.segments.index_tables import GrowingTables, SealedTables, add_digest
from qanat.log.settings import NEVER_MS
from qanat.model.errors import DiskFullError, QanatError, StorageError
from qanat.model.ids import NO_TIMESTAMP, LeaderEpoch, Offset
from qanat.wire.placing import place

if TYPE_CHECKING:
    from qanat.log.directories.directory_state import DirectoryState
    from qanat.log.files import File
    from qanat.log.leader_epochs import LeaderEpochs
    from qanat.log.partition_log import ClosedSegment
    from qanat.log.segments.segment import Segment
    from qanat.log.settings import LogSettings

MAX_RELATIVE_OFFSET = 2**31 - 1


class Appended(Struct, frozen=True, gc=False):
    """Where a batch is in the log."""

    base_offset: int
    last_offset: int
    is_duplicate: bool
    is_flush_due: bool
    """Whether the bargain (`flush.messages`) is that the batch reaches the disk before it is acknowledged."""


class SegmentEnd:
    """The end of a segment: how far it reaches, and what the batch that was entered last is."""

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
        """Where the batch is that was entered last, and what is in it: consumers at the end ask for nothing else."""
        self.last_batch_offset = base_offset
        self.last_batch_end_offset = base_offset
        self.digest = EMPTY
        """Of the headers of all batches (`header_digest`); right while `is_digested`."""
        self.is_digested = True
        self.is_dense = True
        """Whether each batch started where the one before it ended."""
        self.tables: GrowingTables | SealedTables = GrowingTables(base_offset, interval_bytes)

    def is_full(self, size: int, last_offset: int, now_ms: int, segment_bytes: int, age_ms: int) -> bool:
        """Whether a batch must go into the next segment: for its size, for its distance, or for this one's age."""
        if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if not self.size:
            return False
        is_old = self.first_append_ms is not None and now_ms - self.first_append_ms >= age_ms
        return is_old or self.size + size > segment_bytes

    def append_plain(
        self, batch: memoryview, size: int, base_offset: int, last_offset: int, leader_epoch: int, max_timestamp: int
    ) -> None:
        """Write one batch at the end. A write that fails leaves the segment as it was."""
        try:
            self.file.write((batch,), self.size)
        except QanatError:
            self.file.cut(self.size)
            raise
        self.enter(self.size, size, base_offset, last_offset, leader_epoch, max_timestamp)

    def enter(
        self, position: int, size: int, base_offset: int, last_offset: int, leader_epoch: int, max_timestamp: int
    ) -> None:
        """Take a batch that is in the file at `position` into the tables and the segment's extent."""
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


class LogEnd:
    """The end of a log: its segments, its bounds, and what is on its way to the disk."""

    def __init__(
        self,
        settings: LogSettings,
        segments: list[Segment],
        epochs: LeaderEpochs,
        log_start_offset: int,
        state: DirectoryState,
    ) -> None:
        self.apply_settings(settings)
        self.segments = segments
        self.epochs = epochs
        self.log_start_offset = log_start_offset
        self.high_watermark = log_start_offset
        self.state = state
        """Shared with all logs of the data directory."""
        self.closed: list[ClosedSegment] = []
        self.unflushed_bytes = 0
        self.unflushed_records = 0
        self.unflushed_since_ms: int | None = None
        self.job_in_hand: str | None = None
        """Name of the job that is changing the set of segments; one at a time."""
        self.is_appending = False
        """Whether a worker is writing a batch at the end (`large_append`): nothing else is appended meanwhile."""
        self._first_epoch = 0
        """Nothing is appended in the name of an earlier leader epoch."""

    def apply_settings(self, settings: LogSettings) -> None:
        """Settings may change while the log is open; what every append asks for is kept at hand."""
        self.settings = settings
        self._segment_bytes = settings.segment_bytes
        # Settings have no upper bound, these have that of Kafka's: it means never, or as much as one likes.
        self._segment_age_ms = min(settings.segment_age_ms, NEVER_MS)
        self._flush_messages = min(settings.flush_messages, NEVER_MS)
        self._after_max_ms = min(settings.message_timestamp_after_max_ms, NEVER_MS)
        self.is_flushed = settings.is_flushed
        self.flush_ms = min(settings.flush_ms, NEVER_MS)
        self._plain_bytes = min(settings.max_message_bytes, settings.segment_bytes) if settings.keeps_batches else -1
        """How large a batch may be that is stored as it comes."""

    @property
    def end_offset(self) -> int:
        return self.segments[-1].next_offset

    def admits_plain(self, size: int, max_timestamp: int, now_ms: int) -> bool:
        """Whether `admit` would let a batch in as it is, when its header is sound and names no producer."""
        is_early = max_timestamp > now_ms and max_timestamp - now_ms > self._after_max_ms
        return size <= self._plain_bytes and not is_early

    def append_plain(
        self, batch: memoryview, record_count: int, max_timestamp: int, leader_epoch: int, now_ms: int
    ) -> Appended:
        """`append` for a writable batch of no known producer that is admitted."""
        if leader_epoch < self._first_epoch:
            self.require_leader(leader_epoch)
        size = len(batch)
        base_offset = self.segments[-1].next_offset
        last_offset = base_offset + record_count - 1
        segment = self.segment_for(record_count - 1, size, base_offset, now_ms)
        place(batch, base_offset, leader_epoch)
        try:
            segment.append_plain(batch, size, base_offset, last_offset, leader_epoch, max_timestamp)
        except StorageError as error:
            self.note_fault(error)
            raise
        self.take_note(record_count - 1, size, base_offset, leader_epoch, now_ms)
        return Appended(base_offset, last_offset, False, self.unflushed_records >= self._flush_messages)

    def segment_for(self, last_delta: int, size: int, base_offset: int, now_ms: int) -> Segment:
        """Where the next batch goes: the active segment, or a new one where that is full."""
        if self.state.failure is not None:
            self.state.require_working()
        assert self.job_in_hand != "truncation", "nothing is appended to a log that is being cut"
        assert not self.is_appending, "one batch after another"
        segment = self.segments[-1]
        if segment.is_full(size, base_offset + last_delta, now_ms, self._segment_bytes, self._segment_age_ms):
            self.roll(base_offset)
            segment = self.segments[-1]
        return segment

    def roll(self, base_offset: int) -> None:
        """Close the active segment and go on in a new one."""
        raise NotImplementedError

    def require_leader(self, epoch: int) -> None:
        """Refuse what comes in the name of a leadership that is over."""
        raise NotImplementedError

    def note_fault(self, error: StorageError) -> None:
        """A batch could not be written; only a full disk is no reason to give the directory up."""
        if not isinstance(error, DiskFullError):
            self.state.fail(error)

    def take_note(self, last_delta: int, size: int, base_offset: int, leader_epoch: int, now_ms: int) -> None:
        """A batch was added to the active segment."""
        self.state.unflushed_bytes += size
        segment = self.segments[-1]
        if segment.first_append_ms is None:
            segment.first_append_ms = now_ms
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(LeaderEpoch(leader_epoch), Offset(base_offset))
        if self.unflushed_since_ms is None:
            self.unflushed_since_ms = now_ms
        self.unflushed_bytes += size
        self.unflushed_records += last_delta + 1

    def advance_high_watermark(self, offset: int) -> None:
        """Take note that everything below `offset` is replicated; it never retreats here."""
        end_offset = self.segments[-1].next_offset
        assert offset <= end_offset, f"high watermark {offset} beyond the log's end {end_offset}"
        if offset > self.high_watermark:
            self.high_watermark = offset

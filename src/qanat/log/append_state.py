# cython: language_level=3, annotation_typing=False
"""Append state: what an append reads and changes at the end of a log.

`PartitionLog` builds on `LogEnd`, as `Segment` does on `segments.segment_end`. A client that waits for each answer
waits mostly for the interpreter; compiled (like `wire.record_reader`), the fast path of a batch is a few steps on
numbers in C.

Rule: `LogEnd` calls methods of its subclass by name, so that the subclass can replace them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.log.producer_snapshots import encode_snapshot
from qanat.log.segments.segment import ClosedSegment, Segment
from qanat.log.settings import NEVER_MS
from qanat.model.errors import DiskFullError, NotLeaderError, StorageError
from qanat.model.ids import LeaderEpoch, Offset
from qanat.wire.placing import place

if TYPE_CHECKING:
    from qanat.log.directory_state import DirectoryState
    from qanat.log.files import Files
    from qanat.log.leader_epochs import LeaderEpochs
    from qanat.log.producers import ProducerHeader, Producers
    from qanat.log.settings import LogSettings
    from qanat.model.ids import TopicPartition
    from qanat.wire.kafka.fast_produce import FastHeader


class Appended:
    """Where a batch is in the log."""

    __slots__ = ("base_offset", "is_duplicate", "is_flush_due", "last_offset")

    def __init__(self, base_offset: int, last_offset: int, is_duplicate: bool, is_flush_due: bool) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.is_duplicate = is_duplicate
        self.is_flush_due = is_flush_due
        """Whether `flush.messages` requires the batch on disk before it is acknowledged."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Appended) and self._fields() == other._fields()

    def __repr__(self) -> str:
        return "Appended" + repr(self._fields())

    def _fields(self) -> tuple[int, int, bool, bool]:
        return self.base_offset, self.last_offset, self.is_duplicate, self.is_flush_due


class LogEnd:
    """The end of a log: its segments, its bounds, and its unflushed appends."""

    def __init__(
        self,
        files: Files,
        directory: str,
        topic_partition: TopicPartition,
        settings: LogSettings,
        segments: list[Segment],
        epochs: LeaderEpochs,
        producers: Producers,
        log_start_offset: int,
        state: DirectoryState,
    ) -> None:
        self.files = files
        self.directory = directory
        self.topic_partition = topic_partition
        self.apply_settings(settings)
        self.segments = segments
        self.epochs = epochs
        self.producers = producers
        self.log_start_offset = log_start_offset
        self.high_watermark = log_start_offset
        self.state = state
        """Shared with all logs of the data directory."""
        self.closed: list[ClosedSegment] = []
        self.unflushed_bytes = 0
        self.unflushed_records = 0
        self.unflushed_since_ms: int | None = None
        self.running_job: str | None = None
        """Name of the job that is changing the set of segments; one at a time."""
        self.is_appending = False
        """Whether a worker writes at the end (`large_append`, `segment_ingest`): nothing else is appended meanwhile."""
        self.flushed_offset = segments[-1].next_offset
        self.has_new_names = True
        """Whether new file names need a sync of the folder; true while closed segments wait for a flush to begin."""
        self._first_epoch = 0
        """Appends with an earlier leader epoch are refused."""

    def apply_settings(self, settings: LogSettings) -> None:
        """Take new settings, also while the log is open; those that every append reads are copied here."""
        self.settings = settings
        self._segment_bytes = settings.segment_bytes
        # Settings have no upper bound; these numbers have Kafka's, which means never, or unlimited.
        self._segment_age_ms = min(settings.segment_age_ms, NEVER_MS)
        self._flush_messages = min(settings.flush_messages, NEVER_MS)
        self._after_max_ms = min(settings.message_timestamp_after_max_ms, NEVER_MS)
        self.is_flushed = settings.is_flushed
        self.flush_ms = min(settings.flush_ms, NEVER_MS)
        self._fast_bytes_max = min(settings.max_message_bytes, settings.segment_bytes) if settings.keeps_batches else -1
        """The largest batch that is stored unchanged."""

    @property
    def end_offset(self) -> int:
        return self.segments[-1].next_offset

    def admits_fast(self, size: int, max_timestamp: int, now_ms: int) -> bool:
        """Whether `admit` accepts a batch unchanged, given that its header is sound."""
        is_early = max_timestamp > now_ms and max_timestamp - now_ms > self._after_max_ms
        return size <= self._fast_bytes_max and not is_early

    def append_fast(self, batch: memoryview, header: FastHeader, leader_epoch: int, now_ms: int) -> Appended:
        """`append` for a writable, admitted batch."""
        if leader_epoch < self._first_epoch:
            self.require_leader(leader_epoch)
        if header.producer_id >= 0 and (written := self.find_duplicate(header, leader_epoch)) is not None:
            return written
        size = len(batch)
        base_offset = self.segments[-1].next_offset
        last_offset = base_offset + header.last_offset_delta
        segment = self.segment_for(header.last_offset_delta, size, base_offset, now_ms)
        place(batch, base_offset, leader_epoch)
        try:
            segment.append_fast(batch, size, base_offset, last_offset, leader_epoch, header.max_timestamp)
        except StorageError as error:
            self.note_fault(error)
            raise
        self.note_append(header.last_offset_delta, size, base_offset, leader_epoch, now_ms)
        if header.producer_id >= 0:
            return self.appended(header, base_offset, now_ms)
        return self.describe_append(base_offset, last_offset)

    def find_duplicate(self, header: ProducerHeader, leader_epoch: int) -> Appended | None:
        """Where a producer's batch is, if it was appended before; raises where it may not be appended."""
        self.require_leader(leader_epoch)
        if header.producer_id < 0 or (written := self.producers.check(header)) is None:
            return None
        # The first copy may not be on disk yet: the retry waits for it as well.
        is_flush_due = self.settings.flush_messages == 1 and written.last_offset >= self.flushed_offset
        return Appended(written.base_offset, written.last_offset, True, is_flush_due)

    def appended(self, header: ProducerHeader, base_offset: int, now_ms: int) -> Appended:
        """Enter a batch that was just written with its producer."""
        if header.producer_id >= 0:
            self.producers.record(header, base_offset, now_ms)
        return self.describe_append(base_offset, base_offset + header.last_offset_delta)

    def describe_append(self, base_offset: int, last_offset: int) -> Appended:
        """Describe the batch that was just written."""
        appended = Appended.__new__(Appended)  # In C without a call.
        appended.base_offset = base_offset
        appended.last_offset = last_offset
        appended.is_duplicate = False
        appended.is_flush_due = self.unflushed_records >= self._flush_messages
        return appended

    def segment_for(self, last_delta: int, size: int, base_offset: int, now_ms: int) -> Segment:
        """The segment for the next batch: the active one, or a new one where that is full."""
        if self.state.failure is not None:
            self.state.require_working()
        assert self.running_job != "truncation", "nothing is appended to a log that is being truncated"
        assert not self.is_appending, "one batch after another"
        segment = self.segments[-1]
        if segment.is_full(size, base_offset + last_delta, now_ms, self._segment_bytes, self._segment_age_ms):
            self.roll(base_offset)
            segment = self.segments[-1]
        return segment

    def roll(self, base_offset: int | None = None) -> None:
        """Close the active segment and continue in a new one. The next flush seals a closed segment.

        The new one starts at `base_offset` where the next batch is further ahead: after compaction it may
        be further than a segment's tables can count.
        """
        start = self.segments[-1].next_offset if base_offset is None else base_offset
        self.roll_to(Segment.create(self.files, self.directory, start, self.settings.index_interval_bytes))

    def roll_to(self, new: Segment) -> None:
        """Close the active segment and continue in `new`."""
        old = self.segments[-1]
        old.next_offset = new.base_offset
        self.closed.append(ClosedSegment(old, old.describe(), encode_snapshot(self.producers)))
        self.segments.append(new)
        self.has_new_names = True

    def require_leader(self, epoch: int) -> None:
        """Refuse an append with the epoch of a former leadership."""
        if epoch < self._first_epoch:
            raise NotLeaderError(
                f"{self.topic_partition}: the leadership in epoch {epoch} is over; look for the leader again"
            )

    def note_fault(self, error: StorageError) -> None:
        """A batch could not be written; any error but a full disk fails the directory."""
        if not isinstance(error, DiskFullError):
            self.state.fail(error)

    def note_append(self, last_delta: int, size: int, base_offset: int, leader_epoch: int, now_ms: int) -> None:
        """Account for a batch that was added to the active segment."""
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
        """Everything below `offset` is replicated; the high watermark never goes back here."""
        end_offset = self.segments[-1].next_offset
        assert offset <= end_offset, f"high watermark {offset} beyond the log's end {end_offset}"
        if offset > self.high_watermark:
            self.high_watermark = offset
            if self.state.on_high_watermark is not None:
                self.state.on_high_watermark(self)

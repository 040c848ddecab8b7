# cython: language_level=3, annotation_typing=False
"""One partition's log: it assigns offsets, and appends, reads and finds batches.

One thread owns it. Appending writes to the page cache at once. Flushing,
truncation, retention and compaction are jobs (`flush_state`, `truncation`,
`retention`, `compaction`) that the owner runs in a worker.

    log_start_offset <= last_stable_offset <= high_watermark <= end_offset
                                              flushed_offset <= end_offset

Rule 1: an offset is assigned once; only a truncation moves the end back.
Rule 2: bytes that a reader holds never change (see `files`).
Rule 3: consumers' bounds come in as arguments; replication sets the high
        watermark (`replication`), it is never computed here.

Compiled, its numbers are C's and an append is a few steps on them; interpreted (bug bank, mutation testing, platforms
without a compiler) it does the same work.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable

from qanat.log.admission import Admitted
from qanat.log.appended import Appended
from qanat.log.background_jobs import run_now
from qanat.log.directory_state import DirectoryState
from qanat.log.files import Buffer, Files
from qanat.log.leader_epochs import EpochEnd, LeaderEpochs
from qanat.log.log_reads import LogRead, Unready, read_segments
from qanat.log.producer_snapshots import encode_snapshot
from qanat.log.producers import CompletedTransaction, ProducerHeader, Producers
from qanat.log.segments.aborted_index import AbortedTransaction
from qanat.log.segments.batch_scan import Damage, readable_batch
from qanat.log.segments.header_digest import HeaderDigest, HeaderPoint
from qanat.log.segments.index_tables import GrowingTables
from qanat.log.segments.segment import BatchNotFoundError, ClosedSegment, Segment
from qanat.log.settings import NEVER_MS, LogSettings
from qanat.log.state_replay import RebuildJob
from qanat.model.errors import (
    CorruptBatchError,
    DiskFullError,
    NotLeaderError,
    OffsetOutOfRangeError,
    StorageError,
)
from qanat.model.ids import NO_TIMESTAMP, LeaderEpoch, Offset, TopicPartition
from qanat.wire.batch_header import PREFIX_SIZE, BatchHeader, placed, read_header
from qanat.wire.control import Marker, encode_marker
from qanat.wire.kafka.fast_produce import FastHeader
from qanat.wire.placing import place


class PartitionLog:
    """The segments of one partition, oldest first, with their bounds, producers and leader epochs."""

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
        state: DirectoryState | None = None,
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
        self.state = DirectoryState() if state is None else state
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
        self.flushed_headers = self.active, self.active.size, self.active.digest
        """The segment that ended at `flushed_offset`, its size and its header digest there."""
        self.cleaned_offset = 0
        """Compaction has processed everything before this offset."""
        self.is_flushing = False
        self._last_index = 0
        """The index of the latest segment that was looked up: the next look-up is nearly always for the same."""

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

    def __repr__(self) -> str:
        return (
            f"<PartitionLog {self.topic_partition} {self.log_start_offset}..{self.end_offset} "
            f"flushed {self.flushed_offset}, {len(self.segments)} segments>"
        )

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def end_offset(self) -> int:
        return self.segments[-1].next_offset

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def last_stable_offset(self) -> int:
        """How far a read_committed consumer may read."""
        unstable = self.producers.first_unstable_offset(self.high_watermark)
        if unstable is None:
            return self.high_watermark
        return max(min(unstable, self.high_watermark), self.log_start_offset)

    @property
    def damage(self) -> list[Damage]:
        """Known damage, oldest first."""
        return [damage for segment in self.segments for damage in segment.damage]

    def header_point(self) -> HeaderPoint | None:
        """The header digest up to `flushed_offset` in the segment that ends there; for a checkpoint."""
        segment, size, digest = self.flushed_headers
        if segment.damage or not segment.is_digested:
            return None
        headers = HeaderDigest(digest, segment.is_dense)
        return HeaderPoint(segment.base_offset, self.flushed_offset, size, headers)

    def note_damage(self, segment: Segment, found: Iterable[Damage]) -> tuple[Damage, ...]:
        """Enter damage of a segment; report and return what is new (`DirectoryState.on_damage`)."""
        new = segment.note_damage(found)
        if new and self.state.on_damage is not None:
            self.state.on_damage(self, new)
        return new

    # Appending

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

    def append(self, admitted: Admitted, leader_epoch: int, now_ms: int) -> Appended:
        """Append a client's batch at the end, unless it is already there."""
        header = admitted.header
        base_offset = self.segments[-1].next_offset
        if (written := self.find_duplicate(header, leader_epoch)) is not None:
            return written
        self._write(header, admitted.batch, base_offset, leader_epoch, now_ms)
        return self.appended(header, base_offset, now_ms)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        leader_epoch: int,
        now_ms: int,
        *,
        is_commit: bool,
        transaction_version: int = 0,
        is_repeated: bool = False,
    ) -> Appended:
        """Append the marker that ends a producer's transaction, unless it is there and not `is_repeated`."""
        self.require_leader(leader_epoch)
        is_new = self.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        if not is_new and not is_repeated:
            # The first copy may not be on disk yet, somewhere below the end.
            is_flush_due = self._flush_messages == 1 and self.end_offset > self.flushed_offset
            return Appended(self.end_offset - 1, self.end_offset - 1, True, is_flush_due)
        marker = Marker(is_commit, coordinator_epoch)
        batch = encode_marker(marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp_ms=now_ms)
        header = read_header(batch)
        offset = self.end_offset
        self._write(header, batch, offset, leader_epoch, now_ms)
        completed = self.producers.complete(
            header, offset, is_commit=is_commit, coordinator_epoch=coordinator_epoch, now_ms=now_ms
        )
        self._enter_aborted(completed)
        return Appended(offset, offset, False, self.unflushed_records >= self._flush_messages)

    def append_replicated(self, batches: Buffer, now_ms: int) -> int:
        """Append batches as the leader has them, offsets and epochs included; return how many records."""
        view = memoryview(batches)
        position = 0
        count = 0
        while position < len(view):
            header = readable_batch(view, position, self.end_offset)
            if isinstance(header, str):
                raise CorruptBatchError(f"{self.topic_partition}: what the leader sent is no batch: {header}")
            batch = view[position : position + header.size]
            self._write(header, batch, header.base_offset, header.leader_epoch, now_ms)
            self._enter_aborted(self.producers.replay(header, batch, now_ms))
            position += header.size
            count += header.last_offset_delta + 1
        return count

    def _write(self, header: BatchHeader, batch: Buffer, base_offset: int, leader_epoch: int, now_ms: int) -> None:
        size = len(batch)
        segment = self.segment_for(header.last_offset_delta, size, base_offset, now_ms)
        try:
            segment.append(
                placed_chunks(header, batch, base_offset, leader_epoch),
                size,
                base_offset,
                base_offset + header.last_offset_delta,
                leader_epoch,
                header.max_timestamp if header.record_count else NO_TIMESTAMP,
            )
        except StorageError as error:
            self.note_fault(error)
            raise
        self.note_append(header.last_offset_delta, size, base_offset, leader_epoch, now_ms)

    def require_leader(self, epoch: int) -> None:
        """Refuse an append with the epoch of a former leadership."""
        if epoch < self._first_epoch:
            raise NotLeaderError(
                f"{self.topic_partition}: the leadership in epoch {epoch} is over; look for the leader again"
            )

    def find_duplicate(self, header: ProducerHeader, leader_epoch: int) -> Appended | None:
        """Where a producer's batch is, if it was appended before; raises where it may not be appended."""
        self.require_leader(leader_epoch)
        if header.producer_id < 0 or (written := self.producers.check(header)) is None:
            return None
        # The first copy may not be on disk yet: the retry waits for it as well.
        is_flush_due = self.settings.flush_messages == 1 and written.last_offset >= self.flushed_offset
        return Appended(written.base_offset, written.last_offset, True, is_flush_due)

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

    def _enter_aborted(self, completed: CompletedTransaction | None) -> None:
        if completed is not None and completed.is_aborted:
            tables = self.active.tables
            assert isinstance(tables, GrowingTables), "a marker is in the active segment"
            tables.aborted.append(completed.as_aborted())

    # Rolling

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

    # Reading

    def segment_index(self, offset: int) -> int:
        """The index of the segment for an offset at or after the log's first."""
        segments, last = self.segments, self._last_index
        if last < len(segments) and segments[last].base_offset <= offset < segments[last].next_offset:
            return last
        self._last_index = found = max(bisect_right(segments, offset, key=_base_offset) - 1, 0)
        return found

    def segment_at(self, offset: int) -> Segment:
        return self.segments[self.segment_index(offset)]

    def usable(self, index: int) -> Segment:
        """A segment whose look-up tables are open and verified; rebuilt from the log where they are lost.

        For callers that may wait for the disk. An event loop checks `is_checked` and leaves this to a worker.
        """
        segment = self.segments[index]
        if not segment.tables.is_checked and not segment.tables.check():
            job = self.begin_rebuild(segment)
            run_now(job)
            if job.damage and self.state.on_damage is not None:
                self.state.on_damage(self, job.damage)
        return segment

    def begin_rebuild(self, segment: Segment) -> RebuildJob:
        """A job that rebuilds the tables of a sealed segment. No other job may change the log meanwhile."""
        index = self.segments.index(segment)
        return RebuildJob(self.segments[: index + 1], self.settings.index_interval_bytes, self.epochs.entries)

    def read(self, offset: int, max_bytes: int, end_offset: int | None = None) -> LogRead:
        """`read_now` for callers that may wait for the disk: reads what is not in memory here."""
        try:
            found = self._read(offset, max_bytes, end_offset, self.usable)
        except BatchNotFoundError as error:
            self.note_damage(error.segment, error.segment.find_damage(self.epochs.entries))
            raise
        assert isinstance(found, LogRead), "it waited"
        return found

    def read_now(self, offset: int, max_bytes: int, end_offset: int | None = None) -> LogRead | Unready:
        """Whole batches from the one that holds `offset` on, up to `max_bytes` and below `end_offset`.

        The first batch comes even if it is larger. Raises `OffsetOutOfRangeError` outside the log and
        `CorruptLogError` where the next batch is known to be damaged. Touches nothing that is not in
        memory: where the first batch is not, the result is `Unready`.
        """
        try:
            return self._read(offset, max_bytes, end_offset, None)
        except BatchNotFoundError as error:
            return Unready(error.segment, offset, is_damaged=True)

    def _read(
        self, offset: int, max_bytes: int, end_offset: int | None, usable: Callable[[int], Segment] | None
    ) -> LogRead | Unready:
        log_end = self.segments[-1].next_offset
        if not self.log_start_offset <= offset <= log_end:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition} holds offsets {self.log_start_offset} to {log_end} (exclusive), not {offset}"
            )
        end_offset = log_end if end_offset is None else min(end_offset, log_end)
        return read_segments(
            self.segments, self.segment_index(offset), offset, max_bytes, end_offset, self.topic_partition, usable
        )

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions with records from `offset` on, below `end_offset`, for a read_committed fetch."""
        found: list[AbortedTransaction] = []
        for index in range(self.segment_index(offset), len(self.segments)):
            if not self.segments[index].has_aborted:
                continue
            for entry in self.usable(index).tables.aborted:
                if entry.last_offset >= offset and entry.first_offset < end_offset:
                    found.append(entry)
                if entry.last_stable_offset >= end_offset:
                    return found
        return found

    def may_have_aborted(self, offset: int) -> bool:
        """Whether an aborted transaction ended at or after `offset`, as far as memory tells."""
        segments = self.segments
        for index in range(self.segment_index(offset), len(segments)):  # noqa: SIM110 - asked by every read
            if segments[index].has_aborted:
                return True
        return False

    def unready_for_aborted(self, offset: int, end_offset: int) -> Segment | None:
        """A segment that `aborted_transactions` would have to wait for; None where memory has everything."""
        for segment in self.segments[self.segment_index(offset) :]:
            if not segment.has_aborted:
                continue
            if not segment.tables.is_checked:
                return segment
            if any(entry.last_stable_offset >= end_offset for entry in segment.tables.aborted):
                return None
        return None

    # Bounds

    def advance_high_watermark(self, offset: int) -> None:
        """Everything below `offset` is replicated; the high watermark never goes back here."""
        end_offset = self.segments[-1].next_offset
        assert offset <= end_offset, f"high watermark {offset} beyond the log's end {end_offset}"
        if offset > self.high_watermark:
            self.high_watermark = offset
            if self.state.on_high_watermark is not None:
                self.state.on_high_watermark(self)

    def advance_log_start(self, offset: int) -> bool:
        """DeleteRecords: nothing before `offset` is served any more. Retention deletes whole segments later.

        Raises `OffsetOutOfRangeError` beyond the high watermark; returns whether anything changed.
        """
        if not 0 <= offset <= self.high_watermark:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition}: records can be deleted up to the high watermark {self.high_watermark}, "
                f"not up to {offset}"
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.epochs.truncate_start(Offset(offset))
        return True

    def become_leader(self, epoch: LeaderEpoch) -> None:
        """Enter the start of a leader's epoch, whether or not it ever appends (C04)."""
        self._first_epoch = epoch
        self.epochs.assign(epoch, Offset(self.end_offset))

    def become_follower(self, epoch: LeaderEpoch) -> None:
        """Another broker leads in that epoch: waiting appends with an earlier one are refused."""
        self._first_epoch = epoch + 1

    def end_of_epoch(self, epoch: LeaderEpoch) -> EpochEnd:
        """The largest epoch at or below `epoch` and its end: the offset that a follower truncates to."""
        return self.epochs.end_of(epoch, Offset(self.end_offset))


def placed_chunks(header: BatchHeader, batch: Buffer, base_offset: int, leader_epoch: int) -> tuple[Buffer, ...]:
    """The buffers to write so that the batch has its place in the log.

    A writable view allows setting the place in it, which spares the system call a second buffer
    (1.6 us of 16); bytes and bytearrays stay as they are.
    """
    if isinstance(batch, memoryview) and not batch.readonly:
        place(batch, base_offset, leader_epoch)
        return (batch,)
    return placed(header, base_offset, leader_epoch), memoryview(batch)[PREFIX_SIZE:]


def _base_offset(segment: Segment) -> int:
    return segment.base_offset

"""Segment ingest: a file of finished batches, staged outside the log, becomes a segment. Only headers are rewritten.

`check_staged` first checks the file, batch by batch, as `admission` checks what a client sends. Then the log decides
the place of the file, a worker writes offsets and the producer's identity into its headers, and the file is renamed
into the log. Until then the log ends before it, for readers, for a flush and for recovery after a crash.

Rule 1: nothing else is appended meanwhile, and no segment is closed (`PartitionLog.is_appending`). The caller
        runs one after another (`runtime.append_queue`).
Rule 2: a file that cannot be ingested unchanged is rejected and stays as it is (`NotIngestedError`). Small files, and
        those for logs that change batches, are appended batch by batch instead (`runtime.staged_files`).
"""

from __future__ import annotations

from msgspec import Struct

from qanat.log.admission import admit
from qanat.log.appended import Appended
from qanat.log.files import File
from qanat.log.partition_log import PartitionLog
from qanat.log.producers import BATCHES_REMEMBERED
from qanat.log.segments import file_names
from qanat.log.segments.segment import Segment
from qanat.log.settings import LogSettings
from qanat.model.errors import CorruptBatchError, NotIngestedError, QanatError, StorageError
from qanat.model.ids import NO_SEQUENCE
from qanat.wire.batch_header import HEADER_SIZE, BatchHeader, batch_size_at, packed
from qanat.wire.records import INT32_MAX, identified
from qanat.wire.staged import BATCHES_MAX, show


class CheckedFile(Struct, frozen=True):
    """A staged file and the headers of its batches, which are sound."""

    file: File
    size: int
    headers: list[BatchHeader]


def is_ingestible(log: PartitionLog) -> bool:
    """Whether a log stores batches unchanged, and a file of them as it is."""
    return log.settings.keeps_batches and log.active.file.key_id is None


def check_staged(log: PartitionLog, path: str, record_count: int, settings: LogSettings, now_ms: int) -> CheckedFile:
    """Check every batch of a staged file; may wait for the disk. The caller closes the file."""
    if not is_ingestible(log):
        raise NotIngestedError(f"{log.topic_partition} does not store batches unchanged, or is encrypted on the disk")
    try:
        file = log.files.open(path)
    except StorageError as fault:
        raise NotIngestedError(f"there is no staged file: {fault}") from None
    try:
        size = file.size()
        if size > settings.segment_bytes:
            raise NotIngestedError(f"{path} has {size} bytes, more than a segment ({settings.segment_bytes})")
        headers = _headers(file, size, settings, now_ms)
        found = sum(header.record_count for header in headers)
        if found != record_count:
            raise CorruptBatchError(f"{path} has {found} records where {record_count} were announced")
        return CheckedFile(file, size, headers)
    except StorageError as fault:
        file.close()
        raise NotIngestedError(f"a staged file cannot be read: {fault}") from None
    except BaseException:
        file.close()
        raise


def _headers(file: File, size: int, settings: LogSettings, now_ms: int) -> list[BatchHeader]:
    headers: list[BatchHeader] = []
    position = 0
    while position < size:
        head = file.read(position, HEADER_SIZE)
        length = batch_size_at(head, 0) if len(head) == HEADER_SIZE else 0
        if not HEADER_SIZE <= length <= size - position:
            raise CorruptBatchError(f"{file.path} holds no batch at byte {position}")
        if length > settings.max_message_bytes or len(headers) == BATCHES_MAX:
            raise NotIngestedError(f"{file.path} has too large a batch, or more than {BATCHES_MAX}")
        batch = file.read(position, length)
        show(batch)
        # Nothing is decompressed: topics that open batches ingest no files.
        headers.append(admit(batch, settings, now_ms, 0).header)
        position += length
    return headers


class IngestJob:
    """Makes a staged file the last segment of a log. `finish` or `abandon` it; then `appended` holds its place."""

    def __init__(
        self, log: PartitionLog, checked: CheckedFile, producer: BatchHeader, leader_epoch: int, now_ms: int
    ) -> None:
        self._log = log
        self._looked = checked
        self._producer = producer
        self._leader_epoch = leader_epoch
        self._now_ms = now_ms
        self._base_offset = log.end_offset
        self._headers: list[BatchHeader] = []
        self._is_renamed = False
        interval_bytes = log.settings.index_interval_bytes
        self._segment = Segment(log.files, log.directory, self._base_offset, checked.file, interval_bytes)
        self.appended: Appended | None = None
        log.is_appending = True

    @property
    def is_in_place(self) -> bool:
        """Whether the file replaces an empty segment."""
        return not self._log.active.size

    def run(self) -> None:
        """Write the headers. The file still has its own name, so that a fault of it is not a fault of the log."""
        try:
            for header in self._placed():
                position = self._segment.size
                self._looked.file.write((packed(header),), position)
                self._segment.enter_header(position, header, header.max_timestamp)
                self._headers.append(header)
            if self._log.settings.is_flushed:
                # Synced here, so that the next flush has less to do.
                self._looked.file.sync()
        except StorageError as fault:
            raise NotIngestedError(f"a staged file cannot be written to: {fault}") from None

    def _placed(self) -> list[BatchHeader]:
        """The headers with offsets and the producer's identity, if there is a producer."""
        producer, offset, placed = self._producer, self._base_offset, list[BatchHeader]()
        sequence = producer.base_sequence
        for header in self._looked.headers:
            named = identified(
                header,
                producer.producer_id,
                producer.producer_epoch,
                sequence,
                is_transactional=producer.is_transactional,
            )
            placed.append(named._replace(base_offset=offset, leader_epoch=self._leader_epoch))
            offset += header.last_offset_delta + 1
            if sequence != NO_SEQUENCE:
                sequence = (sequence + header.last_offset_delta + 1) & INT32_MAX
        return placed

    def finish(self) -> None:
        """Enter the file in the log, unless the leadership or the directory is lost."""
        log, segment = self._log, self._segment
        try:
            log.state.require_working()
            log.require_leader(self._leader_epoch)
            if not self._is_renamed:
                self.rename()
        except QanatError:
            self.abandon()
            raise
        log.is_appending = False
        if log.active.size:
            log.roll_to(segment)
        else:
            log.active.close()
            log.segments[-1] = segment
            log.has_new_names = True
        last_delta = segment.next_offset - 1 - self._base_offset
        log.note_append(last_delta, segment.size, self._base_offset, self._leader_epoch, self._now_ms)
        if self._producer.producer_id >= 0:
            # The first batch may open a transaction; of the others, no more are remembered.
            for header in (*self._headers[:1], *self._headers[1:][-BATCHES_REMEMBERED:]):
                log.producers.record(header, header.base_offset, self._now_ms)
        is_flush_due = log.unflushed_records >= log.settings.flush_messages
        self.appended = Appended(self._base_offset, segment.next_offset - 1, False, is_flush_due)

    def rename(self) -> None:
        """Rename the file to its name in the log, which an empty segment may have: the file replaces that.

        In a worker then: ext4 writes a file that is renamed over another to the disk at once.
        """
        try:
            self._segment.file.rename(self._segment.path(file_names.LOG))
        except StorageError as fault:
            raise NotIngestedError(f"a staged file could not be renamed: {fault}") from None
        self._is_renamed = True

    def abandon(self) -> None:
        """Leave the log as it was."""
        log = self._log
        log.is_appending = False
        self._looked.file.close()
        if self._is_renamed and log.state.failure is None:
            # The file has replaced an empty segment.
            interval_bytes = log.settings.index_interval_bytes
            log.active.close()
            log.segments[-1] = Segment.create(log.files, log.directory, self._base_offset, interval_bytes)
            log.has_new_names = True


def find_ingested(log: PartitionLog, producer: BatchHeader, leader_epoch: int) -> Appended | None:
    """Where a file is that was ingested before, if it was; raises where it may not be ingested.

    Its batches are counted one by one, so the last of them identifies it.
    """
    log.require_leader(leader_epoch)
    state = log.producers.states.get(producer.producer_id) if producer.producer_id >= 0 else None
    if state is not None and state.epoch == producer.producer_epoch and state.batches:
        last = state.batches[-1]
        if last.last_sequence == producer.last_sequence:
            base_offset = last.last_offset - producer.last_offset_delta
            is_flush_due = log.settings.flush_messages == 1 and last.last_offset >= log.flushed_offset
            return Appended(base_offset, last.last_offset, True, is_flush_due)
    if sequences_there(log, producer):
        return None  # Batch by batch, each is looked for when it is appended.
    return log.find_duplicate(producer, leader_epoch)


def sequences_there(log: PartitionLog, producer: BatchHeader) -> int:
    """How many records of a file are in the log, where an append of it was interrupted; 0 where none or all are."""
    state = log.producers.states.get(producer.producer_id) if producer.producer_id >= 0 else None
    if state is None or state.epoch != producer.producer_epoch or not state.batches:
        return 0
    there = (state.batches[-1].last_sequence + 1 - producer.base_sequence) & INT32_MAX
    return there if there < producer.record_count else 0

"""A local copy of a partition: a log with the offsets and leader epochs of the broker's.

Records arrive one by one and are written as batches, each of one leader epoch. Gaps between offsets stay gaps:
markers and what compaction removed are not delivered.

Rule 1: `flush` returns once everything that was appended is durable. Nothing is acknowledged before.
Rule 2: a truncation in the middle of a batch keeps the records before it: they are written down first
        (`<folder>.truncation`), and opening the copy finishes what a crash interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from qanat.edge.kept_records import Extent
from qanat.log.atomic_files import read_whole, replace
from qanat.log.background_jobs import Job, run_now
from qanat.log.directory_state import DirectoryState
from qanat.log.files import Files
from qanat.log.flush_state import begin_flush
from qanat.log.recovery.log_recovery import Checkpoint, open_log
from qanat.log.retention import begin_retention
from qanat.log.settings import CleanupPolicy, LogSettings
from qanat.log.truncation import begin_restart, begin_truncation
from qanat.model.errors import CorruptBatchError, CorruptLogError, DiskFullError, StorageError
from qanat.model.ids import TopicPartition
from qanat.wire.batch_header import split_batches
from qanat.wire.records import Record, decode_records, encode_batch

BATCH_BYTES = 256 * 1024
"""A batch is closed when its keys and values are so long: a query opens whole batches."""
_DELTA_MAX = 2**31 - 1
"""Offsets in a batch count from its first in 31 bits."""
_INFLATED_BYTES_MAX = 2**31 - 1
"""The batches are our own."""
_TRUNCATION = ".truncation"


class CopyRecord(Struct, frozen=True, gc=False):
    """A record and its leader epoch."""

    record: Record
    epoch: int


class _Truncation(Struct, frozen=True):
    """What must be done to finish a truncation: end the log at `end_offset`, then append `batch`."""

    end_offset: int
    batch: bytes


class PartitionCopy:
    """One copy; belongs to one thread."""

    def __init__(
        self,
        files: Files,
        folder: str,
        at: TopicPartition,
        state: DirectoryState,
        settings: LogSettings,
        durable_to: int = 0,
    ) -> None:
        """Open the copy, and make its folder where there is none.

        Everything below `durable_to` was durable once: what cannot be read there is damage, and not the torn tail of
        a write.
        """
        self.at = at
        self._files = files
        self._folder = folder
        self._state = state
        if not files.exists(folder):
            files.make_directory(folder)
        self.log = open_log(files, folder, at, settings, Checkpoint(recovery_point=durable_to))
        self.log.state = state
        self._finish_truncation()
        self.flush()
        self.log.advance_high_watermark(self.log.end_offset)

    def __repr__(self) -> str:
        return f"<PartitionCopy {self._folder} {self.log.log_start_offset}..{self.log.end_offset}>"

    @property
    def extent(self) -> Extent:
        return Extent(self.log.log_start_offset, self.log.end_offset, self.log.epochs.entries)

    def append(self, records: Sequence[CopyRecord], now_ms: int) -> None:
        """Append records, whose offsets ascend from the end on; durable after `flush`."""
        for run in _runs(records):
            batch = encode_batch([one.record for one in run], leader_epoch=run[0].epoch)
            self.log.append_replicated(memoryview(batch), now_ms)

    def flush(self) -> None:
        """Make everything durable that was appended; raises `StorageError` where that fails, for good."""
        self._state.require_working()
        job = begin_flush(self.log)
        if job is None:
            return
        try:
            job.run()
        except DiskFullError:
            job.postpone()
            raise
        except StorageError as fault:
            self._state.fail(fault)
            raise
        job.finish()
        self.log.advance_high_watermark(self.log.flushed_offset)

    def restart(self, offset: int) -> None:
        """Empty the copy; it continues at an offset."""
        self.flush()
        self._complete(begin_restart(self.log, offset))

    def truncate(self, offset: int) -> None:
        """Remove everything from an offset on."""
        if offset >= self.log.end_offset:
            return
        if offset <= self.log.log_start_offset:
            self.restart(offset)
            return
        self.flush()
        begun = self._truncation_at(offset)
        replace(self._files, self._folder + _TRUNCATION, msgspec.msgpack.encode(begun))
        self._finish_truncation()
        self.flush()

    def _truncation_at(self, offset: int) -> _Truncation:
        """Where the log is cut, and what stays of the batch there."""
        records, _ = self.read(offset, 1, is_whole=True)
        stays = [one for one in records if one.offset < offset]
        if not stays:
            return _Truncation(offset, b"")
        epoch = self.extent.epoch_at(stays[0].offset)
        return _Truncation(stays[0].offset, bytes(encode_batch(stays, leader_epoch=epoch)))

    def _finish_truncation(self) -> None:
        path = self._folder + _TRUNCATION
        written = read_whole(self._files, path)
        if written is None:
            return
        begun = msgspec.msgpack.decode(written, type=_Truncation)
        self.flush()
        if self.log.end_offset > begun.end_offset:
            job = begin_truncation(self.log, begun.end_offset)
            assert job is not None, "it is longer"
            self._complete(job)
        if begun.batch and self.log.end_offset <= begun.end_offset:
            self.log.append_replicated(memoryview(begun.batch), 0)
        self.flush()
        self._files.remove(path)
        self._files.sync_directory(path.rpartition("/")[0])

    def _complete(self, job: Job) -> None:
        try:
            run_now(job)
        except StorageError as fault:
            self._state.fail(fault)
            raise

    def retain(self, now_ms: int) -> bool:
        """Delete the segments that the settings no longer keep; whether there were any."""
        job = begin_retention(self.log, now_ms)
        if job is None:
            return False
        run_now(job)
        return True

    # Reading

    def read(self, offset: int, max_bytes: int, *, is_whole: bool = False) -> tuple[list[Record], int]:
        """Records from an offset on, at least those of one batch, and where to continue: behind damage, if need be.

        `is_whole` gives the records before the offset as well that are in its batch.
        """
        try:
            return self._read(offset, max_bytes, is_whole=is_whole)
        except CorruptBatchError:
            segment = self.log.segment_at(offset)
            self.log.note_damage(segment, segment.find_damage(self.log.epochs.entries))
        except CorruptLogError:
            """The damage is known."""
        damage = [one for one in self.log.damage if one.first_offset <= offset < one.next_offset]
        if not damage:
            return self._read(offset, 1, is_whole=is_whole)  # Only a later batch of this read is damaged.
        return [], damage[0].next_offset

    def _read(self, offset: int, max_bytes: int, *, is_whole: bool) -> tuple[list[Record], int]:
        found: list[Record] = []
        read = self.log.read(offset, max_bytes)
        for view in read.views():
            for batch in split_batches(view):
                records = decode_records(batch, _INFLATED_BYTES_MAX)
                found += records if is_whole else [one for one in records if one.offset >= offset]
        return found, read.next_offset

    # The end of it

    def close(self) -> None:
        """Close the files. What is not durable was not acknowledged."""
        for segment in self.log.segments:
            segment.close()

    def remove(self) -> None:
        """Close the copy and remove its files."""
        self.close()
        remove_copy(self._files, self._folder)


def remove_copy(files: Files, folder: str) -> None:
    """Remove the files of a copy that is not open."""
    files.remove(folder + _TRUNCATION)
    for name in files.list(folder):
        files.remove(f"{folder}/{name}")
    files.remove_directory(folder)


def copy_settings(segment_bytes: int, retention_bytes: int = -1, retention_ms: int = -1) -> LogSettings:
    """The settings of all copies: offsets may have gaps, as after compaction, which never runs here."""
    return LogSettings(
        cleanup_policy=CleanupPolicy.BOTH,
        segment_bytes=segment_bytes,
        retention_bytes=retention_bytes,
        retention_ms=retention_ms,
    )


def _runs(records: Sequence[CopyRecord]) -> Iterator[Sequence[CopyRecord]]:
    """Records that may share a batch: of one epoch, and not too long together."""
    first, size = 0, 0
    for number, one in enumerate(records):
        length = len(one.record.key or b"") + len(one.record.value or b"")
        is_other = one.epoch != records[first].epoch or one.record.offset - records[first].record.offset > _DELTA_MAX
        if number > first and (is_other or size + length > BATCH_BYTES):
            yield records[first:number]
            first, size = number, 0
        size += length
    if first < len(records):
        yield records[first:]

"""Truncation: a follower removes the records that its leader does not have.

Bytes that a reader may hold are never truncated: the segment with the
new end is written again, shorter, and renamed over the old one. Where no reader has
seen the bytes, which is usual for a follower, the file is truncated in place
(`in_place_truncation`). Later segments go first, newest first, so that a crash on the way
leaves a longer log, never one with a hole.
"""

from __future__ import annotations

from contextlib import suppress
from copy import copy

from qanat.log.atomic_files import replace
from qanat.log.in_place_truncation import InPlaceTruncation, plan_in_place_truncation
from qanat.log.leader_epochs import LeaderEpochs
from qanat.log.partition_log import PartitionLog
from qanat.log.segments import file_names
from qanat.log.segments.batch_scan import read_batches
from qanat.log.segments.index_tables import GrowingTables
from qanat.log.segments.segment import Segment
from qanat.log.state_replay import load_producers, remove_snapshots
from qanat.model.errors import DiskFullError
from qanat.model.ids import Offset

_COPY_BYTES = 1024 * 1024


class TruncateJob:
    """Makes a log end at `end_offset`, or at the batch that holds it. Nothing may be appended meanwhile."""

    def __init__(
        self, log: PartitionLog, end_offset: int, plan: InPlaceTruncation | None = None, *, is_restart: bool = False
    ) -> None:
        self._log = log
        self._end_offset = end_offset
        self._kept = [] if is_restart else [segment for segment in log.segments if segment.base_offset < end_offset]
        self._removed = log.segments[len(self._kept) :]
        for index in range(max(len(self._kept) - 1, 0), len(log.segments)):
            # Readers may come until `finish`, with or without file names. An event loop opened the tables before
            # (`touched_segments`).
            log.usable(index)
        self._high_watermark = log.high_watermark
        self._producers = log.producers
        # Before its first record the log has no past to go back to: it restarts there.
        self._is_restart = is_restart or end_offset < log.segments[0].base_offset
        self._epochs = LeaderEpochs([] if self._is_restart else list(log.epochs.entries))
        self._replaced: list[Segment] = []
        self._walked: list[Segment] = []
        self._plan = plan if plan is not None and self._is_unseen(plan) else None
        if self._plan is not None:
            self._plan.begin()
            log.flushed_offset = min(log.flushed_offset, log.end_offset)
            log.flushed_headers = log.active, log.active.size, log.active.digest
        log.running_job = "truncation"

    @property
    def is_in_place(self) -> bool:
        """Whether a shared file is truncated: no other worker may read it until `finish`."""
        return self._plan is not None

    def _is_unseen(self, plan: InPlaceTruncation) -> bool:
        """Whether no reader holds the removed bytes, and none is below the high watermark."""
        is_last = plan.segment is self._log.active
        is_committed = plan.next_offset < self._log.high_watermark
        return is_last and not is_committed and plan.position >= plan.segment.shown_size

    def run(self) -> None:
        if self._plan is not None:
            self._run_in_place(self._plan)
            return
        log = self._log
        while len(self._removed) > (0 if self._kept else 1):
            self._remove(self._removed.pop())
        if not self._kept:
            self._start_afresh(self._removed[0])
        elif self._kept[-1].next_offset > self._end_offset:
            self._shorten(self._kept.pop())
        else:
            # A segment was after it, so it is sealed.
            self._kept.append(self._write_log(self._kept[-1].next_offset, None, 0))
        end_offset = self._kept[-1].next_offset
        remove_snapshots(log.files, log.directory, keep_to=end_offset)
        # Damage on the way is entered in copies; only the last segment belongs to this job.
        walked = [*map(copy, self._kept[:-1]), self._kept[-1]]
        self._producers = load_producers(walked, end_offset, self._high_watermark)
        self._walked = walked
        self._epochs.truncate_end(Offset(end_offset))
        self._write_epochs()

    def _run_in_place(self, plan: InPlaceTruncation) -> None:
        """Recovery rebuilds the tables of an open segment from its batches: they need not be written."""
        log, end_offset = self._log, plan.next_offset
        plan.truncate_file()
        if remove_snapshots(log.files, log.directory, keep_to=end_offset):
            # Later batches may reach the disk before the removal does, and make the snapshots look sound.
            log.files.sync_directory(log.directory)
        self._epochs.is_dirty = log.epochs.is_dirty
        self._epochs.truncate_end(Offset(end_offset))
        if self._epochs != log.epochs:
            # Where the next batch leaves a gap (its leader has compacted), recovery trusts the file.
            with suppress(DiskFullError):
                self._write_epochs()
                self._epochs.is_dirty = False
        self._walked = self._kept
        if plan.has_producers:
            self._walked = [copy(segment) for segment in self._kept]
            last = self._walked[-1]
            last.tables = GrowingTables(last.base_offset, log.settings.index_interval_bytes)
            self._producers = load_producers(self._walked, end_offset, self._high_watermark, is_in_worker=True)

    def _write_epochs(self) -> None:
        replace(self._log.files, f"{self._log.directory}/{file_names.LEADER_EPOCHS}", self._epochs.encode())

    def _remove(self, segment: Segment) -> None:
        for path in segment.all_files():
            self._log.files.remove(path)
            self._log.files.sync_directory(self._log.directory)
        self._replaced.append(segment)

    def _start_afresh(self, old: Segment) -> None:
        """Put an empty segment at the new end in the place of the only one left."""
        self._remove_companions(old)
        if self._is_restart:
            # The past goes before the new start exists: a crash must not carry it over.
            remove_snapshots(self._log.files, self._log.directory, keep_to=-1)
            self._write_epochs()
        self._kept.append(self._write_log(self._end_offset, None, 0))
        if old.base_offset != self._end_offset:
            self._remove(old)
        else:
            self._replaced.append(old)

    def _shorten(self, old: Segment) -> None:
        """Replace the last remaining segment by a copy that ends where the log will end."""
        self._remove_companions(old)
        segment = self._write_log(old.base_offset, old, self._end_within(old))
        segment.first_append_ms = old.first_append_ms
        self._kept.append(segment)
        self._replaced.append(old)

    def _end_within(self, segment: Segment) -> int:
        """The end of the batches that stay in a segment; those after damage are fetched again, like all later ones."""
        damage = [*segment.find_damage(self._epochs.entries)]
        sound_to = min((one.start for one in damage), default=segment.size)
        end = 0
        for position, header, _ in read_batches(segment.file, 0, sound_to, segment.base_offset):
            if header.next_offset > self._end_offset:
                break
            end = position + header.size
        return end

    def _remove_companions(self, segment: Segment) -> None:
        """From here on the segment counts as open, and recovery scans it after a crash."""
        for suffix in file_names.COMPANION_SUFFIXES:
            self._log.files.remove(segment.path(suffix))
        self._log.files.sync_directory(self._log.directory)

    def _write_log(self, base_offset: int, source: Segment | None, length: int) -> Segment:
        """An open segment with the first `length` bytes of `source`, durable under its name."""
        log, files = self._log, self._log.files
        path = file_names.segment_file(log.directory, base_offset, file_names.LOG)
        shortened = files.open(path + file_names.TRUNCATED, create=True)
        if source is not None:
            for position in range(0, length, _COPY_BYTES):
                shortened.write((source.file.read(position, min(_COPY_BYTES, length - position)),), position)
        segment = Segment(files, log.directory, base_offset, shortened, log.settings.index_interval_bytes)
        for position, header, _ in read_batches(shortened, 0, length, base_offset):
            segment.enter_header(position, header)
        assert segment.size == length, "sound batches were copied"
        shortened.sync()
        shortened.rename(path)
        files.sync_directory(log.directory)
        return segment

    def finish(self) -> None:
        log = self._log
        log.segments = self._kept
        for segment, walked in zip(self._kept, self._walked, strict=True):
            log.note_damage(segment, walked.damage)
        if self._plan is None:
            self._epochs.is_dirty = False
        else:
            _copy_aborted(self._kept[-1], self._walked[-1])
            # A job that is half-way through the longer one (scrubbing) sees that the log no longer has it.
            self._kept[-1] = copy(self._kept[-1])
        for segment in self._replaced:
            segment.close()
        log.producers = self._producers
        log.epochs = self._epochs
        log.state.unflushed_bytes -= log.unflushed_bytes
        log.unflushed_bytes = log.unflushed_records = 0
        log.flushed_offset = log.end_offset
        log.flushed_headers = log.active, log.active.size, log.active.digest
        log.unflushed_since_ms = None
        log.has_new_names = False
        log.high_watermark = log.end_offset if self._is_restart else min(log.high_watermark, log.end_offset)
        log.log_start_offset = min(max(log.log_start_offset, log.segments[0].base_offset), log.end_offset)
        log.cleaned_offset = min(log.cleaned_offset, log.end_offset)
        log.running_job = None


def _copy_aborted(segment: Segment, walked: Segment) -> None:
    """Copy the aborted transactions that a walk over a copy of the last segment has found."""
    assert isinstance(segment.tables, GrowingTables), "it was written to"
    assert isinstance(walked.tables, GrowingTables), "it was copied as one that is written to"
    segment.tables.aborted = walked.tables.aborted


def touched_segments(log: PartitionLog, end_offset: int) -> list[Segment]:
    """The segments that a truncation will shorten or remove: their tables must be open before it begins."""
    kept = sum(segment.base_offset < end_offset for segment in log.segments)
    return log.segments[max(kept - 1, 0) :]


class TruncationPlanJob:
    """Finds where a truncation at `end_offset` lands, and whether the segment's file can be truncated there."""

    def __init__(self, log: PartitionLog, end_offset: int) -> None:
        self._segment = log.segment_at(end_offset)
        self._end_offset = end_offset
        self.plan: InPlaceTruncation | None = None

    @property
    def lowest_end(self) -> int:
        """The lowest possible end of the log. Inside a batch, a truncation lands before it."""
        return self._segment.base_offset if self.plan is None else self.plan.next_offset

    def run(self) -> None:
        if self._segment.base_offset < self._end_offset:
            self.plan = plan_in_place_truncation(self._segment, self._end_offset)

    def finish(self) -> None:
        """Nothing has changed."""


def begin_truncation(log: PartitionLog, end_offset: int, plan: InPlaceTruncation | None = None) -> TruncateJob | None:
    """A job that truncates the log to `end_offset`; None where it ends there already.

    `plan` is what a `TruncationPlanJob` has found. The log must be flushed first, so that every segment but the
    last is sealed.
    """
    assert end_offset >= 0, f"offset {end_offset}"
    _assert_idle(log)
    return TruncateJob(log, end_offset, plan) if end_offset < log.end_offset else None


def begin_restart(log: PartitionLog, offset: int) -> TruncateJob:
    """A job that empties the log and continues at `offset`: for a follower too far behind its leader."""
    _assert_idle(log)
    return TruncateJob(log, offset, is_restart=True)


def _assert_idle(log: PartitionLog) -> None:
    assert not log.closed, "flush first"
    assert not log.is_flushing, "flush first"
    assert log.running_job is None, "one job at a time"

"""Flushing a log: everything appended so far becomes durable in one job.

A job covers all that is in the log when it begins; appends that arrive
while it runs share the next one. It seals closed segments, oldest
first: where a later segment has a durable byte, every earlier one is complete.

It also makes producer snapshots durable: once retention has removed the batches
that they were made from, they are the only copy of that state.
"""

from __future__ import annotations

from qanat.log.atomic_files import replace, write_content
from qanat.log.partition_log import PartitionLog
from qanat.log.segments import file_names


class FlushJob:
    """Makes a log durable up to `end_offset`."""

    __slots__ = (
        "_active",
        "_bytes",
        "_closed",
        "_digest",
        "_epochs",
        "_has_new_names",
        "_log",
        "_records",
        "_segment",
        "_size",
        "end_offset",
    )

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._closed = list(log.closed)
        self._segment = log.active
        self._active = self._segment.file
        self._size, self._digest = self._segment.size, self._segment.digest
        self._epochs = log.epochs.encode() if log.epochs.is_dirty else None
        self._has_new_names = log.has_new_names
        self._bytes = log.unflushed_bytes
        self._records = log.unflushed_records
        self.end_offset = log.end_offset
        log.is_flushing = True
        log.has_new_names = False
        log.epochs.is_dirty = False
        log.unflushed_since_ms = None

    @property
    def is_brief(self) -> bool:
        """Whether one fsync is all there is to do."""
        return self._epochs is None and not self._has_new_names

    def run(self) -> None:
        log = self._log
        if self._epochs is not None:
            # Before any segment is sealed: recovery does not read epochs from sealed segments.
            replace(log.files, f"{log.directory}/{file_names.LEADER_EPOCHS}", self._epochs)
        for closed in self._closed:
            path = file_names.segment_file(log.directory, closed.segment.next_offset, file_names.SNAPSHOT)
            write_content(log.files, path, closed.snapshot)
            closed.segment.write_seal(closed.sidecar)
        self._active.sync()
        if self._has_new_names and self._epochs is None:
            log.files.sync_directory(log.directory)

    def finish(self) -> None:
        log = self._log
        for closed in self._closed:
            closed.segment.become_sealed(closed.sidecar)
        del log.closed[: len(self._closed)]
        log.unflushed_bytes -= self._bytes
        log.state.unflushed_bytes -= self._bytes
        log.unflushed_records -= self._records
        log.flushed_offset = self.end_offset
        log.flushed_headers = self._segment, self._size, self._digest
        log.is_flushing = False

    def postpone(self) -> None:
        """Leave it to a later job, because there was no room for a small file. A failed sync cannot be put off."""
        log = self._log
        # The epochs were not written, or a closed segment was not sealed; that has a new one after it.
        log.has_new_names = True
        log.epochs.is_dirty = log.epochs.is_dirty or self._epochs is not None
        log.is_flushing = False


def begin_flush(log: PartitionLog) -> FlushJob | None:
    """A job that makes the log durable as it is now.

    None where it is durable, a flush is under way, or the log is being truncated (which makes it durable itself).
    """
    is_clean = log.flushed_offset == log.end_offset and not log.has_new_names and not log.epochs.is_dirty
    is_busy = log.is_flushing or log.running_job == "truncation"
    return None if is_busy or is_clean else FlushJob(log)

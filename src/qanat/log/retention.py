"""Retention: deleting the oldest segments, by age, by size, or because their records were deleted.

Only sealed segments below the high watermark are deleted, oldest first, one at a time
on the disk too: a crash never leaves a log with a hole.
"""

from __future__ import annotations

from contextlib import suppress

from qanat.log.partition_log import PartitionLog
from qanat.log.segments import file_names
from qanat.log.segments.segment import Segment
from qanat.log.state_replay import remove_snapshots
from qanat.model.errors import DiskFullError
from qanat.model.ids import Offset


class DeleteJob:
    """Removes the files of segments that the log has dropped."""

    def __init__(self, log: PartitionLog, segments: list[Segment]) -> None:
        self._log = log
        self._segments = segments
        self._first_kept = log.segments[0].base_offset
        log.running_job = "retention"

    def run(self) -> None:
        files, directory = self._log.files, self._log.directory
        files.sync_directory(directory)  # The segment that is now the first must have a durable name.
        for segment in self._segments:
            files.remove(segment.path(file_names.LOG))
            files.sync_directory(directory)
            for suffix in file_names.COMPANION_SUFFIXES:
                files.remove(segment.path(suffix))
        remove_snapshots(files, directory, keep_from=self._first_kept)

    def finish(self) -> None:
        for segment in self._segments:
            segment.close()
        self._log.running_job = None


def begin_retention(log: PartitionLog, now_ms: int) -> DeleteJob | None:
    """Drop segments that are too old or too many; the log starts later at once, the job removes the files."""
    if log.running_job is not None:
        return None
    deleted = _expired_segments(log, now_ms)
    is_old = _is_expired(log.active, log, now_ms) and log.active.size and log.settings.is_expired
    if is_old and not log.is_appending:
        # An idle partition expires as well: its last segment is deleted once it is sealed. On a full disk, the
        # other segments go first.
        with suppress(DiskFullError):
            log.roll()
    if not deleted:
        return None
    del log.segments[: len(deleted)]
    first_kept = log.segments[0].base_offset
    if first_kept > log.log_start_offset:
        log.log_start_offset = first_kept
        log.epochs.truncate_start(Offset(first_kept))
    return DeleteJob(log, deleted)


def _expired_segments(log: PartitionLog, now_ms: int) -> list[Segment]:
    settings = log.settings
    surplus = log.size - settings.retention_bytes if settings.is_expired and settings.retention_bytes >= 0 else 0
    deleted: list[Segment] = []
    waiting: list[Segment] = []
    """Segments without a timestamp, usually emptied by compaction: they go with the first dated one after them."""
    for segment, following in zip(log.segments, log.segments[1:], strict=False):
        surplus -= segment.size
        is_deleted = following.base_offset <= log.log_start_offset
        is_due = is_deleted or (settings.is_expired and (surplus >= 0 or _is_expired(segment, log, now_ms)))
        is_undated = settings.is_expired and segment.max_timestamp < 0
        if not ((is_due or is_undated) and segment.is_sealed and following.base_offset <= log.high_watermark):
            break
        waiting.append(segment)
        if is_due:
            deleted += waiting
            waiting.clear()
    return deleted


def _is_expired(segment: Segment, log: PartitionLog, now_ms: int) -> bool:
    retention_ms = log.settings.retention_ms
    return retention_ms >= 0 and 0 <= segment.max_timestamp < now_ms - retention_ms

"""Large append: a worker writes a batch that would keep the owner's thread busy for too long.

The job decides the batch's place, a worker writes the bytes, and only then is the batch in the log. Until then the
log ends before it, for readers, for a flush, and for recovery after a crash, which sees a torn tail.

Rule: nothing else is appended meanwhile, and no segment is closed (`PartitionLog.is_appending`). The caller runs
one after another (`runtime.append_queue`).
"""

from __future__ import annotations

from qanat.log.admission import Admitted
from qanat.log.appended import Appended
from qanat.log.partition_log import PartitionLog, placed_chunks
from qanat.model.errors import QanatError, StorageError
from qanat.model.ids import NO_TIMESTAMP


class AppendJob:
    """Writes one batch at the end of a log. `finish` or `abandon` it; afterwards `appended` holds its place."""

    def __init__(self, log: PartitionLog, admitted: Admitted, leader_epoch: int, now_ms: int) -> None:
        self._log = log
        self._header = admitted.header
        self._size = len(admitted.batch)
        self._leader_epoch = leader_epoch
        self._now_ms = now_ms
        self._base_offset = log.end_offset
        self._segment = log.segment_for(admitted.header.last_offset_delta, self._size, self._base_offset, now_ms)
        self._position = self._segment.size
        self._chunks = placed_chunks(admitted.header, admitted.batch, self._base_offset, leader_epoch)
        self.appended: Appended | None = None
        log.is_appending = True

    def run(self) -> None:
        self._segment.file.write(self._chunks, self._position)

    def finish(self) -> None:
        """Enter the batch in the log, unless the leadership or the directory is lost."""
        log, header = self._log, self._header
        try:
            log.state.require_working()
            log.require_leader(self._leader_epoch)
        except QanatError:
            self.abandon()
            raise
        log.is_appending = False
        last_offset = self._base_offset + header.last_offset_delta
        newest = header.max_timestamp if header.record_count else NO_TIMESTAMP
        self._segment.enter(self._position, self._size, self._base_offset, last_offset, self._leader_epoch, newest)
        log.note_append(header.last_offset_delta, self._size, self._base_offset, self._leader_epoch, self._now_ms)
        self.appended = log.appended(header, self._base_offset, self._now_ms)

    def abandon(self, fault: StorageError | None = None) -> None:
        """Leave the log as it was."""
        self._log.is_appending = False
        try:
            self._segment.file.truncate(self._position)
        finally:
            if fault is not None:
                self._log.note_fault(fault)


def begin_append(log: PartitionLog, admitted: Admitted, leader_epoch: int, now_ms: int) -> AppendJob | Appended:
    """A job that appends a client's batch; the place of the batch where it is already in the log."""
    return log.find_duplicate(admitted.header, leader_epoch) or AppendJob(log, admitted, leader_epoch, now_ms)

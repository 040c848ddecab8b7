# cython: language_level=3, annotation_typing=False
"""Appends to a partition that this broker leads: the fast path, what moves with the end of the log, and what
acknowledgements wait for.

`Partition` extends it. It runs compiled or interpreted, like `log.append_state`.

Rule: once this exists, the high watermark moves only in `_advance_to`, the only place that wakes waiting consumers.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from qanat.log.runtime.sync_future import SyncFuture
from qanat.log.settings import TimestampType
from qanat.model.errors import NotLeaderError
from qanat.model.ids import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable

    from qanat.log.append_state import Appended
    from qanat.log.partition_log import PartitionLog
    from qanat.log.runtime.log_runtime import LogRuntime
    from qanat.replication.leader import Leader
    from qanat.wire.kafka.fast_produce import FastHeader


# Looked up once: attribute access on an enumeration is slow.
_LOG_APPEND_TIME = TimestampType.LOG_APPEND_TIME


class Written:
    """A batch in the log, and the future that its acknowledgement by acks=all waits for."""

    __slots__ = ("append_time_ms", "base_offset", "durable")

    base_offset: int
    append_time_ms: int
    durable: SyncFuture[None] | None


def written_at(base_offset: int, append_time_ms: int, durable: SyncFuture[None] | None) -> Written:
    written = Written.__new__(Written)  # In C without a call.
    written.base_offset = base_offset
    written.append_time_ms = append_time_ms
    written.durable = durable
    return written


class PartitionEnd:
    """The part of a partition that an append uses."""

    __slots__ = (
        "_acknowledged",
        "_runtime",
        "_waiting",
        "_waiting_followers",
        "at",
        "is_retired",
        "leader",
        "leader_epoch",
        "log",
        "readable_bytes",
        "written_bytes",
    )

    def __init__(self, log: PartitionLog, runtime: LogRuntime, leader_epoch: int, leader: Leader | None) -> None:
        self.log = log
        self.at = log.topic_partition
        self.leader_epoch = leader_epoch
        self.leader = leader
        """How far the followers are; None where this is the sole replica."""
        self.written_bytes = 0
        """Bytes appended since the start: waiting fetches count by it."""
        self.readable_bytes = 0
        """`written_bytes` when everything written could last be read: never more than what can be read now."""
        self.is_retired = False
        """Whether its topic was deleted, or another replica leads: this object serves nothing any more."""
        self._runtime = runtime
        self._waiting: dict[Callable[[], None], None] = {}
        self._waiting_followers: dict[Callable[[], None], None] = {}
        self._acknowledged: deque[tuple[int, SyncFuture[None]]] = deque()
        """Waits for an offset to be committed, in order."""

    def append_fast(self, batch: memoryview, header: FastHeader) -> Written | None:
        """`append_now` for a writable batch whose header and checksum are sound."""
        if self.is_retired:
            raise self._not_leader()
        log = self.log
        appended = self._runtime.append_fast(log, batch, header, self.leader_epoch)
        if appended is None:
            return None
        if self.leader is not None or log.is_flushed or appended.is_duplicate:
            return self._written(appended, len(batch))
        # The same for a sole replica that leaves flushing to the kernel: written records can be read.
        self.written_bytes += len(batch)
        end_offset = appended.last_offset + 1
        self._advance_to(end_offset, end_offset)
        return written_at(appended.base_offset, NO_TIMESTAMP, None)

    def _advance_to(self, end_offset: int, log_end: int) -> None:
        self.log.advance_high_watermark(end_offset)
        acknowledged = self._acknowledged
        while acknowledged and acknowledged[0][0] <= end_offset:
            acknowledged.popleft()[1].settle(None)
        if end_offset == log_end:
            self.readable_bytes = self.written_bytes
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for wake in waiting:
                wake()

    def _require_present(self) -> None:
        """A caller that has held this since before it was retired would be acknowledged by rules that no longer hold: a
        sole replica that gets followers is led in the same epoch, by another object."""
        if self.is_retired:
            raise self._not_leader()

    def _written(self, appended: Appended, size: int) -> Written:
        self._require_present()  # It may have been retired while the batch waited for the disk.
        self.written_bytes += size
        if self.leader is not None:
            return self._written_for_followers(appended)
        settings = self.log.settings
        is_log_time = settings.message_timestamp_type is _LOG_APPEND_TIME
        append_time_ms = self._runtime.clock_ms() if is_log_time else NO_TIMESTAMP
        durable = None
        if not settings.is_flushed:
            self.advance()
        elif appended.is_flush_due:
            durable = self._runtime.when_flushed(self.log, appended.last_offset + 1)
        return written_at(appended.base_offset, append_time_ms, durable)

    def _written_for_followers(self, appended: Appended) -> Written:
        is_log_time = self.log.settings.message_timestamp_type is _LOG_APPEND_TIME
        append_time_ms = self._runtime.clock_ms() if is_log_time else NO_TIMESTAMP
        self._wake_followers()
        self.advance()
        return written_at(appended.base_offset, append_time_ms, self._when_committed(appended.last_offset + 1))

    def _when_committed(self, end_offset: int) -> SyncFuture[None] | None:
        """When every member of the in-sync set has everything below; None where it has."""
        if end_offset <= self.log.high_watermark:
            return None
        waiting: SyncFuture[None] = SyncFuture()
        if self.is_retired:
            waiting.settle_with_fault(self._not_leader())
        elif self._acknowledged and self._acknowledged[-1][0] > end_offset:
            self._acknowledged = deque(sorted([*self._acknowledged, (end_offset, waiting)], key=lambda one: one[0]))
        else:
            self._acknowledged.append((end_offset, waiting))
        return waiting

    def _not_leader(self) -> NotLeaderError:
        return NotLeaderError(f"this broker has stopped leading {self.at}: look for the leader again")

    def _wake_followers(self) -> None:
        if self._waiting_followers:
            waiting, self._waiting_followers = self._waiting_followers, {}
            for wake in waiting:
                wake()

    def advance(self) -> None:
        """Move the high watermark as far as it may go, and wake fetches that wait to read that far."""
        if self.is_retired:
            return
        log = self.log
        log_end = log.end_offset
        if self.leader is None:
            end_offset = log.flushed_offset if log.settings.is_flushed else log_end
        else:
            committed = self.leader.committed(log.flushed_offset if log.settings.is_synced else log_end)
            if committed is None:
                return
            end_offset = committed
        if end_offset > log.high_watermark:
            self._advance_to(end_offset, log_end)

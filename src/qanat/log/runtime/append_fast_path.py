# cython: language_level=3, annotation_typing=False
"""The append fast path: a small batch goes into a log without waiting; every append is counted here.

`LogRuntime` builds on this. Compiled and interpreted like `log.partition_log`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from qanat.log.runtime.waiting_appends import OPENED_ON_LOOP_BYTES
from qanat.log.settings import NEVER_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from qanat.log.appended import Appended
    from qanat.log.partition_log import PartitionLog
    from qanat.log.runtime.group_commit import GroupCommit
    from qanat.telemetry.log_counters import LogCounters
    from qanat.wire.kafka.fast_produce import FastHeader


class AppendFastPath:
    """The part of the runtime that every append uses."""

    def __init__(
        self,
        clock_ms: Callable[[], int],
        commits: GroupCommit,
        counters: LogCounters,
        queues: Container[PartitionLog],
    ) -> None:
        self.clock_ms = clock_ms
        self.counters = counters
        self.requests_handled = 0
        """How many requests the broker has handled, on all listeners; sends of an HTTP stream are no requests."""
        self._commits = commits
        self._flush_timers: dict[PartitionLog, asyncio.TimerHandle] = {}
        self._queues = queues

    def append_fast(
        self, log: PartitionLog, batch: memoryview, header: FastHeader, leader_epoch: int
    ) -> Appended | None:
        """`append_now` for a writable batch whose header and checksum are sound."""
        size = len(batch)
        if size > OPENED_ON_LOOP_BYTES or log in self._queues or (log.is_flushed and not self._commits.has_room()):
            return None
        now_ms = self.clock_ms()
        if not log.admits_fast(size, header.max_timestamp, now_ms):
            return None
        appended = log.append_fast(batch, header, leader_epoch, now_ms)
        self._appended(log, appended, 0 if appended.is_duplicate else size)
        return appended

    def _appended(self, log: PartitionLog, appended: Appended, size: int) -> None:
        """Count an append, and request its flush when that is due."""
        if size:
            if not log.is_flushed:
                # Bytes that are never flushed must not keep others from appending.
                log.unflushed_bytes -= size
                log.state.unflushed_bytes -= size
            counters = self.counters
            counters.appended_bytes += size
            counters.appended_records += appended.last_offset - appended.base_offset + 1
        if appended.is_flush_due or log.closed:
            self._commits.request_flush(log)
        elif log.flush_ms < NEVER_MS:
            self._schedule_flush(log)

    def _schedule_flush(self, log: PartitionLog) -> None:
        """Flush within `flush.ms` of the first record that waits for it."""
        if log in self._flush_timers:
            return

        def flush() -> None:
            del self._flush_timers[log]
            self._commits.request_flush(log)

        self._flush_timers[log] = asyncio.get_running_loop().call_later(log.settings.flush_ms / 1000, flush)

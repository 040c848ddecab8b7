"""Cold reads: a worker loads what is not in memory, then the event loop reads.

The loop reads what it can have without waiting (`read_now`,
`find_timestamp_now`). Where that is not enough, a worker reads, verifies checksums,
opens tables, rebuilds lost ones and locates damage; then the loop reads again.

Rule: tables are rebuilt under the log's lock, like every change in its folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager

from qanat.log.log_reads import LogRead, Unready
from qanat.log.page_warmup import LocateJob, OpenTablesJob, PageWarmupJob
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.workers import Workers
from qanat.log.segments.batch_scan import Damage
from qanat.log.segments.segment import Segment
from qanat.log.state_replay import RebuildJob
from qanat.log.timestamp_lookup import TimestampedOffset, TimestampJob, find_timestamp_now
from qanat.model.errors import StorageError
from qanat.telemetry.log_counters import LogCounters

_WARMUPS_MAX = 4
"""Attempts to have a whole range in memory; if the kernel evicts it faster than it is read, it is served anyway."""


class ColdReads:
    """The reading side of a directory's runtime."""

    def __init__(
        self,
        workers: Workers,
        changing: Callable[[PartitionLog], AbstractAsyncContextManager[None]],
        require_present: Callable[[PartitionLog], None],
        on_damage: Callable[[PartitionLog, Sequence[Damage]], None],
        counters: LogCounters,
        limit_bytes: int,
    ) -> None:
        self._workers = workers
        self._changing = changing
        self._require_present = require_present
        self._on_damage = on_damage
        self._counters = counters
        self._limit_bytes = limit_bytes
        self.waiting = 0
        """Reads that wait for the disk now."""

    async def read(self, log: PartitionLog, offset: int, max_bytes: int, end_offset: int | None) -> LogRead:
        """Read as `PartitionLog.read_now`, waiting for the disk where need be."""
        last, attempts = None, 0
        while attempts < _WARMUPS_MAX:
            self._require_present(log)
            found = log.read_now(offset, max_bytes, end_offset)
            if isinstance(found, LogRead):
                return found
            self._counters.cold_reads += last is None
            # Compaction may have emptied some segments: the read continues in the next one, which is cold, too.
            attempts = attempts + 1 if found.segment is last else 1
            last = found.segment
            self.waiting += 1
            try:
                await self._load_cold(log, found, max_bytes)
            finally:
                self.waiting -= 1
        self._require_present(log)
        return log.read(offset, max_bytes, end_offset)

    async def _load_cold(self, log: PartitionLog, what: Unready, max_bytes: int) -> None:
        async with self._workers.leases.leased(log):
            self._require_present(log)
            if what.segment not in log.segments:
                return  # Replaced or expired meanwhile: the next attempt finds another.
            epochs = log.epochs.entries
            job = (
                LocateJob(what.segment, epochs)
                if what.is_damaged
                else PageWarmupJob(what.segment, what.offset, max_bytes, epochs)
            )
            await self._workers.run_read_only(self._workers.reader, job)
        self._on_damage(log, job.damage)
        if isinstance(job, PageWarmupJob) and job.is_lost:
            async with self._changing(log):
                await self._rebuild(self._workers.reader, log, what.segment)

    async def find_timestamp(self, log: PartitionLog, timestamp: int) -> TimestampedOffset | None:
        """The first record as new as `timestamp`: at once where it is in memory, otherwise by a worker."""
        self._require_present(log)
        found = find_timestamp_now(log, timestamp, self._limit_bytes)
        if not isinstance(found, Unready):
            return found
        async with self._workers.leases.leased(log):
            self._require_present(log)
            job = TimestampJob(log, timestamp, self._limit_bytes)
            await self._workers.run_read_only(self._workers.reader, job)
        self._on_damage(log, job.damage)
        return job.found

    async def load_aborted(self, log: PartitionLog, offset: int, end_offset: int) -> None:
        """Return once `PartitionLog.aborted_transactions` has everything in memory."""
        while True:
            self._require_present(log)
            segment = log.unready_for_aborted(offset, end_offset)
            if segment is None:
                return
            for lost in await self._open_tables(self._workers.reader, log, [segment]):
                async with self._changing(log):
                    await self._rebuild(self._workers.reader, log, lost)

    async def open_tables(self, log: PartitionLog, segments: Sequence[Segment]) -> None:
        """Open the tables of sealed segments, rebuilt where they are lost. The caller holds the log's lock."""
        worker = self._workers.maintenance_worker
        for lost in await self._open_tables(worker, log, segments):
            await self._rebuild(worker, log, lost)

    async def _open_tables(
        self, worker: ThreadPoolExecutor, log: PartitionLog, segments: Sequence[Segment]
    ) -> list[Segment]:
        async with self._workers.leases.leased(log):
            self._require_present(log)
            job = OpenTablesJob(segments)
            await self._workers.run_read_only(worker, job)
        return job.lost

    async def _rebuild(self, worker: ThreadPoolExecutor, log: PartitionLog, segment: Segment) -> None:
        if segment in log.segments and not segment.tables.is_checked:
            job = log.begin_rebuild(segment)
            await self._workers.run_to_completion(self._complete_rebuild(worker, job, log))
            self._on_damage(log, job.damage)

    async def _complete_rebuild(self, worker: ThreadPoolExecutor, job: RebuildJob, log: PartitionLog) -> None:
        try:
            await self._workers.run(worker, job.run)
        except StorageError as error:
            if job.is_writing:
                self._workers.fail(error)
            raise
        await self._workers.install(job, log)

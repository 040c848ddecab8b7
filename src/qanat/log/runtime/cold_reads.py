"""Reads beside the event loop: what is not in memory is brought there by a worker first.

The loop asks the log for what it can have without waiting (`read_now`,
`find_timestamp_now`). Where that is not enough a worker reads, compares checksums,
opens tables, rebuilds lost ones and finds out what is damaged; then the loop asks again.

Rule: tables are rebuilt under the log's lock, like everything else that writes into its folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager

from qanat.log.log_reads import LogRead, Unready
from qanat.log.page_warmup import HoldJob, LocateJob, PageWarmupJob
from qanat.log.partition_log import PartitionLog
from qanat.log.recovery.state_replay import RebuildJob
from qanat.log.runtime.workers import Workers
from qanat.log.segments.batch_scan import Damage
from qanat.log.segments.segment import Segment
from qanat.log.timestamp_lookup import TimestampedOffset, TimestampJob, find_timestamp_now
from qanat.model.errors import StorageError
from qanat.telemetry.log_counters import LogCounters

_WARMED_AT_MOST = 4
"""Tries to have a range in memory all at once; where it is taken away faster than it comes, it is served anyway."""


class ColdReads:
    """The reading side of a directory's runtime."""

    def __init__(
        self,
        workers: Workers,
        changing: Callable[[PartitionLog], AbstractAsyncContextManager[None]],
        require_here: Callable[[PartitionLog], None],
        on_damage: Callable[[PartitionLog, Sequence[Damage]], None],
        counters: LogCounters,
        limit_bytes: int,
    ) -> None:
        self._workers = workers
        self._changing = changing
        self._require_here = require_here
        self._on_damage = on_damage
        self._counters = counters
        self._limit_bytes = limit_bytes

    async def read(self, log: PartitionLog, offset: int, max_bytes: int, end_offset: int | None) -> LogRead:
        """Read as `PartitionLog.read_now`, waiting for the disk where need be."""
        last, attempts = None, 0
        while attempts < _WARMED_AT_MOST:
            self._require_here(log)
            found = log.read_now(offset, max_bytes, end_offset)
            if isinstance(found, LogRead):
                return found
            self._counters.cold_reads += last is None
            # Compaction may have emptied some segments: the read goes on to the next one, which is cold, too.
            attempts = attempts + 1 if found.segment is last else 1
            last = found.segment
            await self._bring_in(log, found, max_bytes)
        self._require_here(log)
        return log.read(offset, max_bytes, end_offset)

    async def _bring_in(self, log: PartitionLog, what: Unready, max_bytes: int) -> None:
        async with self._workers.loans.lent(log):
            self._require_here(log)
            if what.segment not in log.segments:
                return  # Replaced or expired meanwhile: the next look shows another.
            epochs = log.epochs.entries
            job = (
                LocateJob(what.segment, epochs)
                if what.is_astray
                else PageWarmupJob(what.segment, what.offset, max_bytes, epochs)
            )
            await self._workers.look(self._workers.reader, job)
        self._on_damage(log, job.damage)
        if isinstance(job, PageWarmupJob) and job.is_lost:
            async with self._changing(log):
                await self._rebuild(self._workers.reader, log, what.segment)

    async def find_timestamp(self, log: PartitionLog, timestamp: int) -> TimestampedOffset | None:
        """The first record as new as `timestamp`: at once where it is in memory, by a worker elsewhere."""
        self._require_here(log)
        found = find_timestamp_now(log, timestamp, self._limit_bytes)
        if not isinstance(found, Unready):
            return found
        async with self._workers.loans.lent(log):
            self._require_here(log)
            job = TimestampJob(log, timestamp, self._limit_bytes)
            await self._workers.look(self._workers.reader, job)
        self._on_damage(log, job.damage)
        return job.found

    async def have_aborted(self, log: PartitionLog, offset: int, end_offset: int) -> None:
        """Return once `PartitionLog.aborted_transactions` has everything at hand."""
        while True:
            self._require_here(log)
            segment = log.unready_for_aborted(offset, end_offset)
            if segment is None:
                return
            for lost in await self._open_tables(self._workers.reader, log, [segment]):
                async with self._changing(log):
                    await self._rebuild(self._workers.reader, log, lost)

    async def hold(self, log: PartitionLog, segments: Sequence[Segment]) -> None:
        """Open the tables of sealed segments, rebuilt where they are lost. The log's lock must be held."""
        worker = self._workers.upkeeper
        for lost in await self._open_tables(worker, log, segments):
            await self._rebuild(worker, log, lost)

    async def _open_tables(
        self, worker: ThreadPoolExecutor, log: PartitionLog, segments: Sequence[Segment]
    ) -> list[Segment]:
        async with self._workers.loans.lent(log):
            self._require_here(log)
            job = HoldJob(segments)
            await self._workers.look(worker, job)
        return job.lost

    async def _rebuild(self, worker: ThreadPoolExecutor, log: PartitionLog, segment: Segment) -> None:
        if segment in log.segments and not segment.tables.is_checked:
            job = log.begin_rebuild(segment)
            await self._workers.to_the_end(self._complete_rebuild(worker, job, log))
            self._on_damage(log, job.damage)

    async def _complete_rebuild(self, worker: ThreadPoolExecutor, job: RebuildJob, log: PartitionLog) -> None:
        try:
            await self._workers.run(worker, job.run)
        except StorageError as error:
            if job.is_writing:
                self._workers.fail(error)
            raise
        await self._workers.install(job, log)

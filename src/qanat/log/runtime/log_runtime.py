"""What the broker asks of logs, as coroutines: append and wait for the disk, read hot or cold, cut, delete.

One per data directory. Three workers: one for fsync, one for cold reads and
large batches, one for upkeep, so that none of them waits for another's disk time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

from qanat.log.admission import Admitted, admit, is_opened
from qanat.log.compaction import begin_compaction
from qanat.log.directory import LogDirectory
from qanat.log.files import Buffer
from qanat.log.jobs import Job
from qanat.log.lookup import TimestampedOffset, batches_as_new, first_as_new
from qanat.log.partition_log import Appended, PartitionLog
from qanat.log.reading import LogRead
from qanat.log.retention import begin_retention
from qanat.log.runtime.group_commit import GroupCommit
from qanat.log.settings import NEVER_MS, LogSettings
from qanat.log.truncation import begin_truncation
from qanat.log.warming import WarmJob, is_warm
from qanat.model.errors import StorageError
from qanat.model.ids import TopicPartition
from qanat.telemetry.log_counters import LogCounters

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

OPENED_ON_LOOP_BYTES = 16 * 1024
"""Batches up to this size are opened where they arrive: a trip to a worker costs more."""


class LogRuntime:
    """The logs of a directory at work. `start` before use, `close` at the end."""

    def __init__(self, directory: LogDirectory, clock_ms: Callable[[], int]) -> None:
        self.directory = directory
        self.clock_ms = clock_ms
        self.counters = LogCounters()
        self._flusher = ThreadPoolExecutor(1, "log-flush")
        self._reader = ThreadPoolExecutor(1, "log-read")
        self._upkeeper = ThreadPoolExecutor(1, "log-upkeep")
        self._commits = GroupCommit(
            directory.state, directory.settings.log_unflushed_bytes_max, self._run_flushes, self.counters
        )
        self._commit_task: asyncio.Task[None] | None = None
        self._flush_timers: dict[PartitionLog, asyncio.TimerHandle] = {}
        self._locks: dict[PartitionLog, asyncio.Lock] = {}

    async def start(self) -> None:
        self._commit_task = asyncio.create_task(self._commits.run(), name="log-group-commit")

    async def close(self) -> None:
        """Finish the flush under way, then close the directory cleanly."""
        for timer in self._flush_timers.values():
            timer.cancel()
        self._commits.close()
        if self._commit_task is not None:
            await self._commit_task
        await self._in(self._upkeeper, self.directory.close)
        for worker in (self._flusher, self._reader, self._upkeeper):
            worker.shutdown()

    # Appending

    async def admit(self, batch: Buffer, settings: LogSettings) -> Admitted:
        """Check a client's batch, on a worker where it must be opened and is not small."""
        limit_bytes = self.directory.settings.log_decompressed_bytes_max
        if len(batch) > OPENED_ON_LOOP_BYTES and is_opened(settings):
            return await self._in(self._reader, admit, batch, settings, self.clock_ms(), limit_bytes)
        return admit(batch, settings, self.clock_ms(), limit_bytes)

    async def append(self, log: PartitionLog, batch: Buffer, leader_epoch: int) -> Appended:
        """Append a client's batch; wait for the disk only as far as the bound on unflushed bytes demands.

        The caller that promises durability goes on with `flushed`.
        """
        admitted = await self.admit(batch, log.settings)
        if not self._commits.has_room() and log.settings.is_flushed:
            await self._commits.wait_for_room(dict.fromkeys(self._unflushed()))
        appended = log.append(admitted, leader_epoch, self.clock_ms())
        if not appended.is_duplicate:
            self.counters.appended_bytes += len(admitted.batch)
            self.counters.appended_records += appended.last_offset - appended.base_offset + 1
        if appended.is_flush_due or log.closed:
            self._commits.ask(log)
        elif log.settings.flush_ms < NEVER_MS:
            self._schedule_flush(log)
        return appended

    async def flushed(self, log: PartitionLog, end_offset: int) -> None:
        """Return once everything below `end_offset` is on disk."""
        await self._commits.wait(log, end_offset)

    def _unflushed(self) -> list[PartitionLog]:
        return [log for log in self.directory.logs.values() if log.unflushed_bytes and log.settings.is_flushed]

    def _schedule_flush(self, log: PartitionLog) -> None:
        """Flush within `flush.ms` of the first record that waits for it."""
        if log in self._flush_timers:
            return

        def flush() -> None:
            del self._flush_timers[log]
            self._commits.ask(log)

        self._flush_timers[log] = asyncio.get_running_loop().call_later(log.settings.flush_ms / 1000, flush)

    # Reading

    async def read(self, log: PartitionLog, offset: int, max_bytes: int, end_offset: int | None = None) -> LogRead:
        """Read as `PartitionLog.read`, with cold pages brought in beside the loop and checked first."""
        if log.log_start_offset <= offset < log.end_offset:
            segment = log.usable(log.segment_index(offset))
            if not is_warm(segment, offset, max_bytes):
                self.counters.cold_reads += 1
                await self._warm(WarmJob(segment, offset, max_bytes))
        return log.read(offset, max_bytes, end_offset)

    async def _warm(self, job: WarmJob) -> None:
        await self._run_on(self._reader, job)
        self.counters.damage_found += len(job.damage)

    async def find_timestamp(self, log: PartitionLog, timestamp: int) -> TimestampedOffset | None:
        """The first record as new as `timestamp`: found here, opened on a worker."""
        limit_bytes = self.directory.settings.log_decompressed_bytes_max
        for batch in batches_as_new(log, timestamp):
            found = await self._in(self._reader, first_as_new, batch, timestamp, log.log_start_offset, limit_bytes)
            if found is not None:
                return found
        return None

    # Changing

    async def create(self, at: TopicPartition, topic_id: str, settings: LogSettings) -> PartitionLog:
        """A new log. The file work is small and happens once per partition: it stays on the loop."""
        return self.directory.create(at, topic_id, settings)

    async def delete(self, at: TopicPartition) -> None:
        """Remove a partition. Whoever waits for its records is told."""
        log = self.directory.logs[at]
        async with self.changing(log):
            self._commits.abandon(log, StorageError(f"{at} was deleted"))
            await self._commits.settle(log)
            await self.do(self.directory.begin_delete(at))
        del self._locks[log]

    async def truncate(self, log: PartitionLog, end_offset: int) -> None:
        """Cut a follower's log back."""
        async with self.changing(log):
            await self._commits.settle(log)
            job = begin_truncation(log, end_offset)
            if job is not None:
                await self.do(job)

    async def delete_records(self, log: PartitionLog, offset: int) -> int:
        """Move the log's start forward, durably; returns where it now is."""
        if log.advance_log_start(offset):
            await self.do(self.directory.begin_checkpoint())
        return log.log_start_offset

    async def compact(self, log: PartitionLog, throttle: Callable[[int], None]) -> bool:
        """One pass of compaction now; False where there is nothing to do."""
        async with self.changing(log):
            job = begin_compaction(log, self.directory.settings, self.clock_ms(), throttle)
            if job is None:
                return False
            await self.do(job)
        self.counters.compactions += 1
        return True

    async def expire(self, log: PartitionLog) -> None:
        """Let go of segments that are too old or too many."""
        async with self.changing(log):
            before = len(log.segments)
            job = begin_retention(log, self.clock_ms())
            if job is not None:
                self.counters.deleted_segments += before - len(log.segments)
                await self.do(job)
        if log.closed:
            self._commits.ask(log)

    def changing(self, log: PartitionLog) -> asyncio.Lock:
        """Held by whoever changes the set of a log's segments."""
        return self._locks.setdefault(log, asyncio.Lock())

    # Workers

    async def do(self, job: Job) -> None:
        """Run a job of upkeep and install its outcome. A fault of the disk fails the directory."""
        await self._run_on(self._upkeeper, job)

    async def _run_on(self, worker: ThreadPoolExecutor, job: Job) -> None:
        try:
            await self._in(worker, job.run)
        except StorageError as error:
            self.directory.state.fail(error)
            raise
        job.finish()

    async def _run_flushes(self, jobs: Sequence[Job]) -> None:
        await self._in(self._flusher, _run_all, jobs)

    async def _in(
        self, worker: ThreadPoolExecutor, function: Callable[[*Arguments], Result], *arguments: *Arguments
    ) -> Result:
        return await asyncio.get_running_loop().run_in_executor(worker, function, *arguments)


def _run_all(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.run()

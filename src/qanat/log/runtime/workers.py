"""The worker threads of a data directory, and how work gets there and back.

One worker for fsync (`fsync_thread`), one for cold reads and for opening batches, one for writing large ones, one for
maintenance, one for compaction (which is throttled), so that none of them waits for another's
disk time; and a few that make new logs, whose many small fsyncs would otherwise queue
one by one behind all others on a busy disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

from qanat.log.background_jobs import Job
from qanat.log.directory_state import DirectoryState
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.fsync_thread import FsyncThread
from qanat.log.runtime.segment_leases import SegmentLeases
from qanat.model.errors import DiskFullError, StorageError

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

LOGS_MADE_AT_ONCE = 4
"""Workers that make new logs. They help where the disk is busy otherwise; alone on it, one is as fast."""


class Workers:
    """The threads for blocking work. Belongs to one event loop."""

    def __init__(
        self, state: DirectoryState, on_failure: Callable[[], None], fsync_thread: FsyncThread | None = None
    ) -> None:
        self._state = state
        self._on_failure = on_failure
        self.fsync_thread = fsync_thread or FsyncThread()
        self.reader = ThreadPoolExecutor(1, "log-read")
        self.writer = ThreadPoolExecutor(1, "log-write")
        self.maintenance_worker = ThreadPoolExecutor(1, "log-maintenance")
        self.cleaner = ThreadPoolExecutor(1, "log-clean")
        self.makers = ThreadPoolExecutor(LOGS_MADE_AT_ONCE, "log-make")
        self.leases = SegmentLeases()
        self._jobs: set[asyncio.Task[None]] = set()

    async def settle(self) -> None:
        """Return once no job is under way."""
        while self._jobs:
            await asyncio.wait(self._jobs)

    def close(self) -> None:
        self.fsync_thread.close()
        for worker in (self.reader, self.writer, self.maintenance_worker, self.cleaner, self.makers):
            worker.shutdown()

    async def run(
        self, worker: ThreadPoolExecutor, function: Callable[[*Arguments], Result], *arguments: *Arguments
    ) -> Result:
        return await asyncio.get_running_loop().run_in_executor(worker, function, *arguments)

    async def complete(
        self, worker: ThreadPoolExecutor, job: Job, log: PartitionLog | None, *, survives_full_disk: bool = False
    ) -> None:
        """Run a job and install its outcome. A disk error fails the directory."""
        try:
            await self.run(worker, job.run)
        except StorageError as error:
            if not (survives_full_disk and isinstance(error, DiskFullError)):
                self.fail(error)
            raise
        await self.install(job, log)

    async def install(self, job: Job, log: PartitionLog | None) -> None:
        """Finish a job; for a job on a log, no worker reads that log's segments meanwhile."""
        if log is None:
            job.finish()
            return
        async with self.leases.recalled(log):
            job.finish()

    def fail(self, error: StorageError) -> None:
        """Fail the directory, and wake the waiters."""
        self._state.fail(error)
        self._on_failure()

    async def run_read_only(self, worker: ThreadPoolExecutor, job: Job) -> None:
        """Run a job that only reads: a read error is the reader's, and does not fail the directory."""
        await self.run_to_completion(self._run_read_only(worker, job))

    async def _run_read_only(self, worker: ThreadPoolExecutor, job: Job) -> None:
        await self.run(worker, job.run)
        job.finish()

    async def run_to_completion(self, work: Coroutine[None, None, None]) -> None:
        """Await work that must not stop half-way: a cancelled caller leaves when it is done."""
        task = asyncio.create_task(work)
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)
        is_cancelled = False
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                is_cancelled = True
            except StorageError:
                break
        if is_cancelled:
            raise asyncio.CancelledError
        task.result()

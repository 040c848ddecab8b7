"""The threads of a data directory, and how work gets there and back.

One worker for fsync (`flusher`), one for cold reads and for opening batches, one for writing large ones, one for
upkeep, one for compaction (which is slowed down on purpose), so that none of them waits for another's
disk time; and a few that make new logs, whose many small fsyncs would otherwise queue
one by one behind everybody else's on a busy disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

from qanat.log.background_jobs import Job
from qanat.log.directories.directory_state import DirectoryState
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.fsync_thread import Flusher
from qanat.log.runtime.segment_leases import SegmentLeases
from qanat.model.errors import DiskFullError, StorageError

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

LOGS_MADE_AT_ONCE = 4
"""Workers that make new logs. They help where the disk is busy with others; alone on it, one is as fast."""


class Workers:
    """Who does the blocking work. Belongs to one event loop."""

    def __init__(self, state: DirectoryState, on_failure: Callable[[], None], flusher: Flusher | None = None) -> None:
        self._state = state
        self._on_failure = on_failure
        self.flusher = flusher or Flusher()
        self.reader = ThreadPoolExecutor(1, "log-read")
        self.writer = ThreadPoolExecutor(1, "log-write")
        self.upkeeper = ThreadPoolExecutor(1, "log-upkeep")
        self.cleaner = ThreadPoolExecutor(1, "log-clean")
        self.makers = ThreadPoolExecutor(LOGS_MADE_AT_ONCE, "log-make")
        self.loans = SegmentLeases()
        self._jobs: set[asyncio.Task[None]] = set()

    async def settle(self) -> None:
        """Return once no job is under way."""
        while self._jobs:
            await asyncio.wait(self._jobs)

    def close(self) -> None:
        self.flusher.close()
        for worker in (self.reader, self.writer, self.upkeeper, self.cleaner, self.makers):
            worker.shutdown()

    async def run(
        self, worker: ThreadPoolExecutor, function: Callable[[*Arguments], Result], *arguments: *Arguments
    ) -> Result:
        return await asyncio.get_running_loop().run_in_executor(worker, function, *arguments)

    async def complete(
        self, worker: ThreadPoolExecutor, job: Job, log: PartitionLog | None, *, survives_full_disk: bool = False
    ) -> None:
        """Run a job and install its outcome. A fault of the disk fails the directory."""
        try:
            await self.run(worker, job.run)
        except StorageError as error:
            if not (survives_full_disk and isinstance(error, DiskFullError)):
                self.fail(error)
            raise
        await self.install(job, log)

    async def install(self, job: Job, log: PartitionLog | None) -> None:
        """Finish a job; where it is about a log, nobody reads that log's segments on a worker meanwhile."""
        if log is None:
            job.finish()
            return
        async with self.loans.recalled(log):
            job.finish()

    def fail(self, error: StorageError) -> None:
        """Give the directory up, and let those who wait hear of it."""
        self._state.fail(error)
        self._on_failure()

    async def look(self, worker: ThreadPoolExecutor, job: Job) -> None:
        """Run a job that only reads: what it cannot read is the reader's trouble, not the directory's."""
        await self.to_the_end(self._look(worker, job))

    async def _look(self, worker: ThreadPoolExecutor, job: Job) -> None:
        await self.run(worker, job.run)
        job.finish()

    async def to_the_end(self, work: Coroutine[None, None, None]) -> None:
        """Await work that must not stop half-way: a caller that is cancelled goes when it is done."""
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

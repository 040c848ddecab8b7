"""Waiting appends: for a worker that opens or writes a batch, for room among unflushed bytes, for earlier appends.

Rule: the batches of one log get their offsets in the order in which they came here (`append_queue`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import TypeVar

from qanat.log.admission import Admitted, admit, is_opened
from qanat.log.appended import Appended
from qanat.log.files import Buffer
from qanat.log.large_append import begin_append
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.append_fairness import AppendFairness
from qanat.log.runtime.append_queue import AppendQueues
from qanat.log.runtime.workers import Workers
from qanat.log.segment_ingest import CheckedFile, IngestJob, check_staged
from qanat.log.settings import LogSettings
from qanat.model.errors import InflatesTooFarError, QanatError, StorageError

Result = TypeVar("Result")

OPENED_ON_LOOP_BYTES = 16 * 1024
"""Batches up to this size are opened on the loop: a worker costs more."""
INFLATED_ON_LOOP_BYTES = 64 * 1024
"""The same for their decompressed size, which shows only while decompressing."""
WRITTEN_ON_LOOP_BYTES = 2 * 1024 * 1024
"""Batches up to this size are checked and written on the loop: some two milliseconds."""


class WaitingAppends:
    """Appends of one data directory that may wait. Belongs to one event loop."""

    def __init__(self, workers: Workers, clock_ms: Callable[[], int], opened_bytes_max: int) -> None:
        self._workers = workers
        self._clock_ms = clock_ms
        self._opened_bytes_max = opened_bytes_max
        self.opened_on_loop_bytes = min(INFLATED_ON_LOOP_BYTES, opened_bytes_max)
        self.queues = AppendQueues()
        self.fairness = AppendFairness()

    async def admit(self, batch: Buffer, settings: LogSettings) -> Admitted:
        """Check a client's batch, in a worker where that takes long."""
        size = len(batch)
        is_large = size > WRITTEN_ON_LOOP_BYTES or (size > OPENED_ON_LOOP_BYTES and is_opened(settings))
        if not is_large and not settings.compresses_slowly:
            try:
                return admit(batch, settings, self._clock_ms(), self.opened_on_loop_bytes)
            except InflatesTooFarError:
                pass
        arguments = batch, settings, self._clock_ms(), self._opened_bytes_max
        return await self._workers.run(self._workers.reader, admit, *arguments)

    async def write(self, log: PartitionLog, admitted: Admitted, leader_epoch: int) -> Appended:
        """Append a large batch, in a worker."""
        return await self.uninterrupted(self._append(log, admitted, leader_epoch))

    async def uninterrupted(self, append: Coroutine[None, None, Result]) -> Result:
        """Complete an append that has begun; a cancelled caller gets its result all the same.

        The effects of an append (watermarks, waking readers) must follow, even where its client is gone.
        """
        outcome: list[Result | QanatError] = []

        async def carry_out() -> None:
            try:
                outcome.append(await append)
            except QanatError as fault:
                outcome.append(fault)

        try:
            await self._workers.run_to_completion(carry_out())
        except asyncio.CancelledError:
            task = asyncio.current_task()
            while task is not None and task.cancelling():
                task.uncancel()
        (result,) = outcome
        if isinstance(result, QanatError):
            raise result
        return result

    async def _append(self, log: PartitionLog, admitted: Admitted, leader_epoch: int) -> Appended:
        # A log that is being removed closes its files only when the leases are returned.
        async with self._workers.leases.leased(log):
            job = begin_append(log, admitted, leader_epoch, self._clock_ms())
            if isinstance(job, Appended):
                return job
            try:
                await self._workers.run(self._workers.writer, job.run)
            except StorageError as fault:
                job.abandon(fault)
                raise
            job.finish()
            assert job.appended is not None, "finished"
            return job.appended

    async def check_staged(self, log: PartitionLog, path: str, record_count: int) -> CheckedFile:
        """Check a staged file, batch by batch."""
        arguments = log, path, record_count, log.settings, self._clock_ms()
        return await self._workers.run(self._workers.makers, check_staged, *arguments)

    async def ingest(self, log: PartitionLog, job: IngestJob, idle: Callable[[], Awaitable[None]]) -> Appended:
        """Make a staged file the log's last segment. `idle` returns once no flush of the log is under way."""
        async with AsyncExitStack() as stack:
            try:
                await self._workers.run(self._workers.makers, job.run)
                if job.is_in_place:
                    await self._workers.run(self._workers.makers, job.rename)
                    # The empty segment is closed at the end.
                    await stack.enter_async_context(self._workers.leases.recalled(log))
                    while log.is_flushing:
                        await idle()
            except QanatError:
                job.abandon()
                raise
            job.finish()
        assert job.appended is not None, "finished"
        return job.appended

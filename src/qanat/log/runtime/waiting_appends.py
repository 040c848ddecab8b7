"""Appends that wait: for a worker that opens or writes a batch, for room on the way to the disk, for those before.

Rule: the batches of one log get their offsets in the order in which they came here (`lines`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import TypeVar

from qanat.log.admission import Admitted, admit, is_opened
from qanat.log.append_state import Appended
from qanat.log.files import Buffer
from qanat.log.large_append import begin_append
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.append_fairness import AppendFairness
from qanat.log.runtime.append_queue import Lines
from qanat.log.runtime.workers import Workers
from qanat.log.segments.segment_ingest import IngestJob, Looked, look
from qanat.log.settings import LogSettings
from qanat.model.errors import InflatesTooFarError, QanatError, StorageError

Result = TypeVar("Result")

OPENED_ON_LOOP_BYTES = 16 * 1024
"""Batches up to this size are opened where they arrive: a trip to a worker costs more."""
INFLATED_ON_LOOP_BYTES = 64 * 1024
"""The same for what comes out of them: how much that is shows only while it is inflated."""
WRITTEN_ON_LOOP_BYTES = 2 * 1024 * 1024
"""Batches up to this size are checked and written where they arrive: some two milliseconds."""


class Appends:
    """Appends of one data directory that may wait. Belongs to one event loop."""

    def __init__(self, workers: Workers, clock_ms: Callable[[], int], opened_bytes_max: int) -> None:
        self._workers = workers
        self._clock_ms = clock_ms
        self._opened_bytes_max = opened_bytes_max
        self.opened_on_loop_bytes = min(INFLATED_ON_LOOP_BYTES, opened_bytes_max)
        self.lines = Lines()
        self.turns = AppendFairness()

    async def admit(self, batch: Buffer, settings: LogSettings) -> Admitted:
        """Check a client's batch, on a worker where that takes long."""
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
        """Append a large batch, by a worker."""
        return await self.whole(self._append(log, admitted, leader_epoch))

    async def whole(self, append: Coroutine[None, None, Result]) -> Result:
        """An append that, once begun, is done; a caller who is cancelled hears of it.

        What follows an append (watermarks, whoever waits to read) must follow, even where its client is gone.
        """
        outcome: list[Result | QanatError] = []

        async def carry_out() -> None:
            try:
                outcome.append(await append)
            except QanatError as fault:
                outcome.append(fault)

        try:
            await self._workers.to_the_end(carry_out())
        except asyncio.CancelledError:
            task = asyncio.current_task()
            while task is not None and task.cancelling():
                task.uncancel()
        (result,) = outcome
        if isinstance(result, QanatError):
            raise result
        return result

    async def _append(self, log: PartitionLog, admitted: Admitted, leader_epoch: int) -> Appended:
        # A log that is being removed closes its files only when they are given back.
        async with self._workers.loans.lent(log):
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

    async def look(self, log: PartitionLog, path: str, record_count: int) -> Looked:
        """Look at a staged file, batch by batch."""
        arguments = log, path, record_count, log.settings, self._clock_ms()
        return await self._workers.run(self._workers.makers, look, *arguments)

    async def adopt(self, log: PartitionLog, job: IngestJob, idle: Callable[[], Awaitable[None]]) -> Appended:
        """Make a staged file the log's last segment. `idle` returns once no flush of the log is under way."""
        async with AsyncExitStack() as stack:
            try:
                await self._workers.run(self._workers.makers, job.run)
                if job.is_in_place:
                    await self._workers.run(self._workers.makers, job.rename)
                    # The empty segment is closed at the end.
                    await stack.enter_async_context(self._workers.loans.recalled(log))
                    while log.is_flushing:
                        await idle()
            except QanatError:
                job.abandon()
                raise
            job.finish()
        assert job.appended is not None, "finished"
        return job.appended

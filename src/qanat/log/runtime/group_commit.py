"""Group commit: one fsync acknowledges everything that was appended before it began.

While the disk works, appends go on and wait for the next round. What is on its
way is bounded (`log.unflushed.bytes.max`): a long queue in front of one fsync
would stall every write beside it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from qanat.log.directory_state import DirectoryState
from qanat.log.flush import FlushJob, begin_flush
from qanat.log.partition_log import PartitionLog
from qanat.model.errors import StorageError
from qanat.telemetry.log_counters import LogCounters

_Waiters = deque[tuple[int, asyncio.Future[None]]]


class GroupCommit:
    """Flushes the logs of one directory, each round all that asked for it."""

    def __init__(
        self,
        state: DirectoryState,
        unflushed_bytes_max: int,
        run_all: Callable[[list[FlushJob]], Awaitable[None]],
        counters: LogCounters,
    ) -> None:
        self._state = state
        self._unflushed_bytes_max = unflushed_bytes_max
        self._run_all = run_all
        self._counters = counters
        self._asked: dict[PartitionLog, None] = {}
        self._waiting: dict[PartitionLog, _Waiters] = {}
        self._short_of_room: deque[asyncio.Future[None]] = deque()
        self._wake = asyncio.Event()
        self._is_closing = False

    def ask(self, log: PartitionLog) -> None:
        """Let the next round take this log along."""
        self._asked[log] = None
        self._wake.set()

    async def wait(self, log: PartitionLog, end_offset: int) -> None:
        """Return once everything below `end_offset` is on disk; raise if that can no longer be said."""
        if log.flushed_offset < end_offset:
            await self._next_round(log, end_offset)

    async def settle(self, log: PartitionLog) -> None:
        """Return once a log has nothing unflushed, unsealed or under way. Nothing may be appended meanwhile."""
        while log.is_flushing or log.closed or log.flushed_offset < log.end_offset:
            await self._next_round(log, log.end_offset)

    async def _next_round(self, log: PartitionLog, end_offset: int) -> None:
        self._state.require_working()
        flushed = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(log, deque()).append((end_offset, flushed))
        self.ask(log)
        await flushed

    async def wait_for_room(self, logs: dict[PartitionLog, None]) -> None:
        """Return once little enough is on its way to the disk. `logs` are those that may hold unflushed bytes."""
        while self._state.unflushed_bytes > self._unflushed_bytes_max and self._state.failure is None:
            for log in logs:
                self.ask(log)
            room = asyncio.get_running_loop().create_future()
            self._short_of_room.append(room)
            await room

    def has_room(self) -> bool:
        return self._state.unflushed_bytes <= self._unflushed_bytes_max

    def abandon(self, log: PartitionLog, error: StorageError) -> None:
        """Tell whoever waits for a log that it is gone."""
        self._asked.pop(log, None)
        for _, flushed in self._waiting.pop(log, ()):
            if not flushed.done():
                flushed.set_exception(error)

    async def run(self) -> None:
        """Serve until `close`, or until the disk fails."""
        while not self._is_closing:
            await self._wake.wait()
            self._wake.clear()
            await self._commit()

    async def _commit(self) -> None:
        while self._asked and self._state.failure is None:
            logs = list(self._asked)
            self._asked.clear()
            jobs = [job for log in logs if (job := begin_flush(log)) is not None]
            if jobs:
                try:
                    await self._run_all(jobs)
                except StorageError as error:
                    self._state.fail(error)
                    break
            for job in jobs:
                job.finish()
            self._counters.flushes += len(jobs)
            for log in logs:
                self._release(log)
            _wake_all(self._short_of_room)
        if self._state.failure is not None:
            self._fail()

    def _release(self, log: PartitionLog) -> None:
        """Wake those whose records are on disk; ask again for the others."""
        waiters = self._waiting.get(log)
        while waiters and waiters[0][0] <= log.flushed_offset:
            _, flushed = waiters.popleft()
            if not flushed.done():
                flushed.set_result(None)
        if waiters:
            self.ask(log)
        else:
            self._waiting.pop(log, None)

    def _fail(self) -> None:
        for log in list(self._waiting):
            for _, flushed in self._waiting.pop(log):
                if not flushed.done():
                    flushed.set_exception(self._state.failed_error())
        _wake_all(self._short_of_room)

    def close(self) -> None:
        """Let `run` end after the round that is under way."""
        self._is_closing = True
        self._wake.set()


def _wake_all(waiting: deque[asyncio.Future[None]]) -> None:
    while waiting:
        future = waiting.popleft()
        if not future.done():
            future.set_result(None)

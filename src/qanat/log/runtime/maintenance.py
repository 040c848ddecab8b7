"""Maintenance: retention, compaction, checkpoints and scrubbing, each in its own period.

Each works through all logs of the directory, one at a time, throttled, off the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from qanat.log.compaction.compaction import is_compaction_due
from qanat.log.page_warmup import CheckJob
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.segments.segment import Segment
from qanat.log.settings import DirectorySettings
from qanat.model.errors import DiskFullError, PartitionDeletedError, StorageError

_SCRUB_BYTES = 1024 * 1024
_SCRUB_PAUSE_MS = 60_000
"""Pause between two rounds over everything."""
_PAUSE_BYTES = 1024 * 1024
_LONGEST_PAUSE_S = 0.1


class Pacer:
    """Slows a worker down to so many bytes per second, pausing once a megabyte; until `hurry`."""

    def __init__(self, bytes_per_second: Callable[[], int], pause: Callable[[float], None]) -> None:
        self._bytes_per_second = bytes_per_second
        self._pause = pause
        self._owed_bytes = 0
        self._is_hurried = False

    def __call__(self, done_bytes: int) -> None:
        self._owed_bytes += done_bytes
        if self._owed_bytes >= _PAUSE_BYTES:
            left_s = self._owed_bytes / self._bytes_per_second()
            while left_s > 0 and not self._is_hurried:
                self._pause(min(left_s, _LONGEST_PAUSE_S))
                left_s -= _LONGEST_PAUSE_S
            self._owed_bytes = 0

    def hurry(self) -> None:
        """Pause no more: a caller waits for the end."""
        self._is_hurried = True


class Maintenance:
    """The periodic work of one directory. `pause` blocks a worker for so many seconds."""

    def __init__(self, runtime: LogRuntime, pause: Callable[[float], None]) -> None:
        self._runtime = runtime
        self._pacer = Pacer(lambda: self._settings.log_cleaner_io_max_bytes_per_second, pause)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def _settings(self) -> DirectorySettings:
        """Read each time: they may change while this runs."""
        return self._runtime.directory.settings

    def start(self) -> None:
        periods: list[tuple[str, Callable[[], int], Callable[[], Awaitable[object]]]] = [
            ("retention", lambda: self._settings.log_retention_check_interval_ms, self.expire),
            ("compaction", lambda: self._settings.log_cleaner_backoff_ms, self.compact),
            ("checkpoint", lambda: self._settings.log_flush_offset_checkpoint_interval_ms, self.checkpoint),
        ]
        if self._settings.log_scrub_bytes_per_second:
            periods.append(("scrub", lambda: _SCRUB_PAUSE_MS, self.scrub))
        self._tasks = [asyncio.create_task(self._every(ms, act), name=f"log-{name}") for name, ms, act in periods]

    async def close(self) -> None:
        """Stop between two steps; waits for a job that is under way in a worker."""
        self._pacer.hurry()
        for task in self._tasks:
            task.cancel()
        for outcome in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome  # A bug: disk errors end up in the directory's state.

    async def expire(self) -> None:
        """Apply retention to every log and to staged files, and remove silent producers."""
        await self._runtime.staged.expire()
        now_ms = self._runtime.clock_ms()
        for log in self._logs():
            with suppress(DiskFullError, PartitionDeletedError):
                await self._runtime.expire(log)
            log.producers.expire(now_ms, self._settings.producer_id_expiration_ms)
            await asyncio.sleep(0)  # Thousands of logs with nothing to do would together block the event loop.

    async def compact(self) -> None:
        """Compact every log that is due."""
        for log in self._logs():
            if is_compaction_due(log, self._runtime.clock_ms()):
                with suppress(DiskFullError, PartitionDeletedError):
                    await self._runtime.compact(log, self._pacer)
            await asyncio.sleep(0)

    async def checkpoint(self) -> None:
        """Write the checkpoints, and the known damage."""
        await self._runtime.record_damage()
        await self._runtime.checkpoint()

    async def scrub(self) -> int:
        """Verify the checksums of everything once; returns how much damage is new.

        The last segment of each log is included: after a clean shutdown nothing else has read it.
        """
        found = 0
        for log in self._logs():
            for segment in list(log.segments):
                with suppress(PartitionDeletedError):
                    found += await self._scrub_segment(log, segment)
        return found

    async def _scrub_segment(self, log: PartitionLog, segment: Segment) -> int:
        found = 0
        pace = self._settings.log_scrub_bytes_per_second
        job = CheckJob(segment, _SCRUB_BYTES, log.epochs.entries)
        while not job.is_done:
            before = job.position
            if not await self._runtime.check(log, segment, job):
                break
            found += len(job.damage)
            self._runtime.counters.scrubbed_bytes += job.position - before
            self._runtime.note_damage(log, job.damage)
            await asyncio.sleep((job.position - before) / pace if pace else 0)
        return found

    def _logs(self) -> list[PartitionLog]:
        return list(self._runtime.directory.logs.values())

    async def _every(self, period_ms: Callable[[], int], act: Callable[[], Awaitable[object]]) -> None:
        while self._runtime.directory.state.failure is None:
            await asyncio.sleep(period_ms() / 1000)
            # A failed directory needs no maintenance; a full disk may be freed.
            with suppress(StorageError):
                await act()

"""What happens by itself: old segments go, keys are compacted, checkpoints are written, checksums are compared.

Each act has a period of its own and works through all logs of the directory,
one at a time, throttled, beside the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from qanat.log.compaction import is_compaction_due
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.segment import Segment
from qanat.log.warming import CheckJob
from qanat.model.errors import StorageError

_SCRUB_BYTES = 1024 * 1024
_SCRUB_PAUSE_S = 60.0
"""Rest between two rounds over everything."""
_PAUSE_BYTES = 1024 * 1024


class Pacer:
    """Slows a worker down to so many bytes per second, pausing once a megabyte."""

    def __init__(self, bytes_per_second: int, pause: Callable[[float], None]) -> None:
        self._bytes_per_second = bytes_per_second
        self._pause = pause
        self._owed_bytes = 0

    def __call__(self, done_bytes: int) -> None:
        self._owed_bytes += done_bytes
        if self._owed_bytes >= _PAUSE_BYTES:
            self._pause(self._owed_bytes / self._bytes_per_second)
            self._owed_bytes = 0


class Upkeep:
    """The periodic work of one directory. `pause` blocks a worker for so many seconds."""

    def __init__(self, runtime: LogRuntime, pause: Callable[[float], None]) -> None:
        self._runtime = runtime
        self._settings = runtime.directory.settings
        self._pacer = Pacer(self._settings.log_cleaner_io_max_bytes_per_second, pause)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        periods: list[tuple[str, int, Callable[[], Awaitable[None]]]] = [
            ("retention", self._settings.log_retention_check_interval_ms, self.expire),
            ("compaction", self._settings.log_cleaner_backoff_ms, self.compact),
            ("checkpoint", self._settings.log_flush_offset_checkpoint_interval_ms, self.checkpoint),
        ]
        self._tasks = [asyncio.create_task(_every(ms, act), name=f"log-{name}") for name, ms, act in periods]
        if self._settings.log_scrub_bytes_per_second:
            self._tasks.append(asyncio.create_task(self._scrub_for_ever(), name="log-scrub"))

    async def close(self) -> None:
        """Stop between two steps. A job that is under way on a worker is waited for by the runtime's own close."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def expire(self) -> None:
        """Apply retention to every log, and forget producers that have been silent."""
        now_ms = self._runtime.clock_ms()
        for log in self._logs():
            await self._runtime.expire(log)
            log.producers.expire(now_ms, self._settings.producer_id_expiration_ms)

    async def compact(self) -> None:
        """Compact every log that is due, the dirtiest first come."""
        for log in self._logs():
            if is_compaction_due(log, self._runtime.clock_ms()):
                await self._runtime.compact(log, self._pacer)

    async def checkpoint(self) -> None:
        await self._runtime.do(self._runtime.directory.begin_checkpoint())

    async def scrub(self) -> int:
        """Compare the checksums of all sealed segments once; returns how much damage is new."""
        found = 0
        for log in self._logs():
            for segment in [segment for segment in log.segments if segment.is_sealed]:
                found += await self._scrub_segment(log, segment)
        return found

    async def _scrub_segment(self, log: PartitionLog, segment: Segment) -> int:
        found = 0
        job = CheckJob(segment, 0, segment.base_offset, _SCRUB_BYTES)
        while not job.is_done and segment in log.segments:
            before = job.position
            await self._runtime.do(job)
            found += len(job.damage)
            self._runtime.counters.scrubbed_bytes += job.position - before
            self._runtime.counters.damage_found += len(job.damage)
            await asyncio.sleep((job.position - before) / max(self._settings.log_scrub_bytes_per_second, 1))
        return found

    async def _scrub_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_SCRUB_PAUSE_S)
            try:
                await self.scrub()
            except StorageError:
                return  # The directory has failed: there is nothing left to look after.

    def _logs(self) -> list[PartitionLog]:
        return list(self._runtime.directory.logs.values())


async def _every(period_ms: int, act: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(period_ms / 1000)
        try:
            await act()
        except StorageError:
            return  # As above.

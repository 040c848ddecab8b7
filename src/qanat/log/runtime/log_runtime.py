"""The log runtime: appends, reads, truncation and deletion as coroutines, for the broker.

One per data directory. `workers` does its blocking work, `cold_reads` its cold reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from weakref import WeakValueDictionary

from qanat.log.admission import Admitted, admit, is_opened
from qanat.log.appended import Appended
from qanat.log.background_jobs import Job
from qanat.log.compaction.compaction import begin_compaction, unready_segments
from qanat.log.directories.directory import LogDirectory
from qanat.log.files import Buffer
from qanat.log.flush_state import FlushJob
from qanat.log.log_reads import LogRead
from qanat.log.page_warmup import CheckJob
from qanat.log.partition_log import PartitionLog
from qanat.log.recorded_damage import begin_damage_record
from qanat.log.retention import begin_retention
from qanat.log.runtime.append_fast_path import AppendFastPath
from qanat.log.runtime.cold_reads import ColdReads
from qanat.log.runtime.fsync_thread import FsyncThread
from qanat.log.runtime.group_commit import GroupCommit, Postponed
from qanat.log.runtime.staged_files import AppendSteps, StagedFiles
from qanat.log.runtime.sync_future import SyncFuture
from qanat.log.runtime.waiting_appends import OPENED_ON_LOOP_BYTES, WRITTEN_ON_LOOP_BYTES, WaitingAppends
from qanat.log.runtime.workers import Workers
from qanat.log.segments.batch_scan import Damage
from qanat.log.segments.segment import Segment
from qanat.log.settings import LogSettings
from qanat.log.timestamp_lookup import TimestampedOffset
from qanat.log.truncation import TruncationPlanJob, begin_restart, begin_truncation, touched_segments
from qanat.model.errors import (
    DiskFullError,
    InflatesTooFarError,
    PartitionDeletedError,
    StorageError,
)
from qanat.model.ids import TopicPartition
from qanat.telemetry.log_counters import LogCounters
from qanat.wire.batch_header import read_header
from qanat.wire.control import MARKER_SIZE, Marker
from qanat.wire.staged import StagedFile


class LogRuntime(AppendFastPath):
    """The open logs of a directory. `start` before use, `close` at the end."""

    def __init__(
        self, directory: LogDirectory, clock_ms: Callable[[], int], fsync_thread: FsyncThread | None = None
    ) -> None:
        counters = LogCounters()
        commits = GroupCommit(
            directory.state,
            directory.settings.log_unflushed_bytes_max,
            self._run_flushes,
            self._report_flushed,
            counters,
            lambda: self.requests_handled,
        )
        self._workers = Workers(directory.state, commits.wake, fsync_thread)
        self._appends = WaitingAppends(self._workers, clock_ms, directory.settings.log_decompressed_bytes_max)
        super().__init__(clock_ms, commits, counters, self._appends.queues.by_log)
        self.directory = directory
        self.on_flushed: Callable[[PartitionLog], None] | None = None
        """Called for every log that has more on disk than before."""
        self.on_damage: Callable[[PartitionLog, Sequence[Damage]], None] | None = None
        """Called on the event loop, once for each damage found while the directory is open: by a cold read, a look-up,
        scrubbing, a compaction, a truncation. Damage found at the start is in `PartitionLog.damage` only."""
        directory.state.on_damage = self.note_damage
        steps = AppendSteps(self._append_small, self._appended, self._wait_for_room, self.changing)
        self.staged = StagedFiles(directory, self._workers, self._appends, self._commits, steps, clock_ms)
        self._locks: WeakValueDictionary[TopicPartition, asyncio.Lock] = WeakValueDictionary()
        self._cold = ColdReads(
            self._workers,
            self.changing,
            self._require_present,
            self.note_damage,
            self.counters,
            directory.settings.log_decompressed_bytes_max,
        )

    async def start(self) -> None:
        self._commits.start()
        await self.staged.expire()  # Counts what is there.

    async def close(self) -> None:
        """Finish the jobs and the flush under way, then close the directory cleanly."""
        for timer in self._flush_timers.values():
            timer.cancel()
        try:
            await self._workers.settle()
            try:
                await self._commits.closed()
            finally:
                await self._workers.run(self._workers.maintenance_worker, self.directory.close)
        finally:
            self._workers.close()

    # What waits

    def waiting_for_flush(self) -> list[tuple[PartitionLog, int]]:
        """The logs whose flush is waited for, and by how many."""
        return self._commits.waiting()

    @property
    def appends_without_room(self) -> int:
        """Appends that wait for unflushed bytes to become fewer."""
        return self._commits.without_room

    @property
    def cold_reads_waiting(self) -> int:
        """Reads that wait for the disk now."""
        return self._cold.waiting

    # Appending

    async def append(self, log: PartitionLog, batch: Buffer, leader_epoch: int) -> Appended:
        """Append a client's batch; wait for the disk only as far as the bound on unflushed bytes demands.

        A caller that promises durability continues with `flushed`.
        """
        appends = self._appends
        async with appends.queues.join(log) as front:
            await appends.fairness.take(len(batch))
            admitted = await appends.admit(batch, log.settings)
            await front
            await self._wait_for_room(log)
            if len(admitted.batch) <= WRITTEN_ON_LOOP_BYTES:
                return self._append(log, admitted, leader_epoch, self.clock_ms())
            appended = await appends.write(log, admitted, leader_epoch)
            self._appended(log, appended, 0 if appended.is_duplicate else len(admitted.batch))
            return appended

    def append_now(self, log: PartitionLog, batch: Buffer, leader_epoch: int) -> Appended | None:
        """Append without waiting; None where that is impossible (then `append`)."""
        settings, size = log.settings, len(batch)
        if size > OPENED_ON_LOOP_BYTES and (size > WRITTEN_ON_LOOP_BYTES or is_opened(settings)):
            return None
        if log in self._queues or (settings.is_flushed and not self._commits.has_room()) or settings.compresses_slowly:
            return None
        now_ms = self.clock_ms()
        try:
            admitted = admit(batch, settings, now_ms, self._appends.opened_on_loop_bytes)
        except InflatesTooFarError:
            return None
        return self._append(log, admitted, leader_epoch, now_ms)

    async def ingest(self, log: PartitionLog, staged: StagedFile, leader_epoch: int) -> tuple[Appended, int]:
        """Append a staged file of batches in the data directory, or make it the last segment; returns its size, too.

        As with `append`, a caller that promises durability waits for it.
        """
        async with self.queued(log):
            return await self._appends.uninterrupted(self.staged.ingest(log, staged, leader_epoch))

    @asynccontextmanager
    async def queued(self, log: PartitionLog) -> AsyncIterator[None]:
        """Hold the log's append queue: for internal writers to a log that clients write to as well."""
        async with self._appends.queues.join(log) as front:
            await front
            yield

    def append_own(self, log: PartitionLog, batch: Buffer, leader_epoch: int) -> Appended:
        """Append a batch that was made here and needs no admission."""
        return self._append(log, Admitted(read_header(batch), batch), leader_epoch, self.clock_ms())

    def append_marker(
        self,
        log: PartitionLog,
        producer_id: int,
        producer_epoch: int,
        marker: Marker,
        leader_epoch: int,
        transaction_version: int,
        *,
        is_repeated: bool = False,
    ) -> int:
        """End a producer's transaction; returns how many bytes were written, 0 where it had ended before.

        `is_repeated`: a marker that is in the log is written once more.
        """
        appended = log.append_marker(
            producer_id,
            producer_epoch,
            marker.coordinator_epoch,
            leader_epoch,
            self.clock_ms(),
            is_commit=marker.is_commit,
            transaction_version=transaction_version,
            is_repeated=is_repeated,
        )
        size = 0 if appended.is_duplicate else MARKER_SIZE
        self._appended(log, appended, size)
        return size

    def append_replicated(self, log: PartitionLog, batches: Buffer) -> SyncFuture[None] | None:
        """Append what a leader has sent; returns a future for its being on disk, None where that was not promised."""
        count = log.append_replicated(batches, self.clock_ms())
        is_synced, end_offset = log.settings.is_synced, log.end_offset
        self._appended(log, Appended(end_offset - count, end_offset - 1, False, is_synced), len(batches))
        return self._commits.when(log, end_offset) if is_synced and count else None

    def _append(self, log: PartitionLog, admitted: Admitted, leader_epoch: int, now_ms: int) -> Appended:
        appended = log.append(admitted, leader_epoch, now_ms)
        self._appended(log, appended, 0 if appended.is_duplicate else len(admitted.batch))
        return appended

    def _append_small(self, log: PartitionLog, admitted: Admitted, leader_epoch: int) -> Appended:
        return self._append(log, admitted, leader_epoch, self.clock_ms())

    async def _wait_for_room(self, log: PartitionLog) -> None:
        if not self._commits.has_room() and log.settings.is_flushed:
            await self._commits.wait_for_room(self._unflushed)

    async def flushed(self, log: PartitionLog, end_offset: int) -> None:
        """Return once everything below `end_offset` is on disk."""
        await self._commits.wait(log, end_offset)

    def when_flushed(self, log: PartitionLog, end_offset: int) -> SyncFuture[None] | None:
        """A future for the same; None where it is so already."""
        return self._commits.when(log, end_offset)

    def flush_soon(self, log: PartitionLog) -> None:
        """Include a log in the next flush, without waiting for it."""
        self._commits.request_flush(log)

    def _unflushed(self) -> list[PartitionLog]:
        return [log for log in self.directory.logs.values() if log.unflushed_bytes]

    # Reading

    async def read(self, log: PartitionLog, offset: int, max_bytes: int, end_offset: int | None = None) -> LogRead:
        """Read as `PartitionLog.read_now`; a worker loads and verifies cold pages first."""
        return await self._cold.read(log, offset, max_bytes, end_offset)

    async def find_timestamp(self, log: PartitionLog, timestamp: int) -> TimestampedOffset | None:
        """The first record as new as `timestamp`; without waiting where it is in memory."""
        return await self._cold.find_timestamp(log, timestamp)

    async def load_aborted(self, log: PartitionLog, offset: int, end_offset: int) -> None:
        """Return once `PartitionLog.aborted_transactions` can answer from memory."""
        await self._cold.load_aborted(log, offset, end_offset)

    def note_damage(self, log: PartitionLog, found: Sequence[Damage]) -> None:
        """Count new damage, and report it."""
        self.counters.damage_found += len(found)
        if found and self.on_damage is not None:
            self.on_damage(log, found)

    def _require_present(self, log: PartitionLog) -> None:
        """Refuse a log that was deleted: its files are closed."""
        if log.state is not self.directory.state:
            log.state.require_working()

    # Changing

    async def create(
        self, at: TopicPartition, topic_id: str, settings: LogSettings, revision: int = 0, generation: int = 0
    ) -> PartitionLog:
        """A new log; a worker makes its files, because a topic may have a thousand partitions."""
        async with self._lock(at):
            if self.directory.has_checkpoint(at):
                await self.checkpoint()  # In order with the others; `begin_create` would write one of its own.
            job = self.directory.begin_create(at, topic_id, settings, revision, generation)
            completing = self._workers.complete(self._workers.makers, job, None, survives_full_disk=True)
            await self._workers.run_to_completion(completing)
            return self.directory.logs[at]

    async def delete(self, at: TopicPartition) -> None:
        """Delete a partition, offline or not, and fail what waits for its records."""
        if at in self.directory.offline:
            await self._workers.run_to_completion(self._delete_offline(at))
        else:
            await self._workers.run_to_completion(self._delete(self.directory.logs[at]))

    async def _delete(self, log: PartitionLog) -> None:
        async with self.changing(log):
            self.directory.detach(log.topic_partition)
            timer = self._flush_timers.pop(log, None)
            if timer is not None:
                timer.cancel()
            self._commits.abandon(log)
            await self._commits.idle(log)
            # In the workers that make logs: a topic of a thousand partitions must not delay maintenance.
            await self._workers.complete(self._workers.makers, self.directory.begin_removal(log), log)

    async def _delete_offline(self, at: TopicPartition) -> None:
        async with self._lock(at):
            fault, topic_id = self.directory.offline[at], self.directory.topic_ids.get(at, "")
            job = self.directory.begin_delete_offline(at)
            try:
                await self._workers.run(self._workers.makers, job.run)
            except StorageError:
                # The log was broken before; this fault says nothing new about the directory.
                if self.directory.files.exists(self.directory.folder(at)):
                    self.directory.offline[at], self.directory.topic_ids[at] = fault, topic_id
                raise

    async def set_aside(self, at: TopicPartition) -> str:
        """Remove a partition that is not in use yet, and rename its folder; returns the folder's new name."""
        async with self._lock(at):
            job = self.directory.begin_set_aside(at)
            await self._workers.run_to_completion(self._workers.complete(self._workers.makers, job, None))
            return job.aside

    async def truncate(self, log: PartitionLog, end_offset: int) -> None:
        """Truncate a follower's log."""
        async with self.queued(log), self.changing(log):
            await self._commits.settle(log)
            if end_offset < log.end_offset:
                await self._workers.run_to_completion(self._truncate(log, end_offset))

    async def restart(self, log: PartitionLog, offset: int) -> None:
        """Empty a follower's log and continue at an offset that its leader still has."""
        async with self.queued(log), self.changing(log):
            await self._commits.settle(log)
            await self._workers.run_to_completion(self._truncate(log, offset, is_restart=True))

    async def _truncate(self, log: PartitionLog, end_offset: int, *, is_restart: bool = False) -> None:
        """Checkpoints first: one that exceeds the log would turn the next torn tail into damage."""
        look = TruncationPlanJob(log, end_offset)
        if not is_restart:
            await self.run_job(look)
        lowest = log.segments[0].base_offset if is_restart else look.lowest_end
        self.directory.truncating[log.topic_partition] = lowest
        try:
            if self.directory.has_checkpoint_beyond(log.topic_partition, lowest):
                await self.run_job(self.directory.begin_checkpoint())
            await self._cold.open_tables(log, log.segments if is_restart else touched_segments(log, end_offset))
            # A cold read that meets a truncated range would take it for damage.
            async with self._workers.leases.recalled(log):
                job = begin_restart(log, end_offset) if is_restart else begin_truncation(log, end_offset, look.plan)
                assert job is not None, "no other job changes the log meanwhile"
                if job.is_in_place:
                    await self.run_job(job)
            if not job.is_in_place:
                await self.run_job(job, log)
        finally:
            del self.directory.truncating[log.topic_partition]

    async def checkpoint(self) -> None:
        """Write the checkpoint files. A full disk leaves the old ones in place."""
        self.directory.state.require_working()
        await self.run_job(self.directory.begin_checkpoint(), survives_full_disk=True)

    async def record_damage(self) -> None:
        """Write damage found since the last time into sidecars, so that it is known after a crash."""
        for log in list(self.directory.logs.values()):
            if begin_damage_record(log) is None:
                continue
            with suppress(DiskFullError, PartitionDeletedError):
                async with self.changing(log):
                    job = begin_damage_record(log)
                    if job is not None:
                        await self.run_job(job, log, survives_full_disk=True)

    async def compact(self, log: PartitionLog, throttle: Callable[[int], None]) -> bool:
        """One pass of compaction now; False where there is nothing to do."""
        async with self.changing(log):
            cleaned_offset = log.cleaned_offset
            while unready := unready_segments(log, self.clock_ms()):
                await self._cold.open_tables(log, unready)
            job = begin_compaction(log, self.directory.settings, self.clock_ms(), throttle)
            if job is None:
                return False
            try:
                completing = self._workers.complete(self._workers.cleaner, job, log, survives_full_disk=True)
                await self._workers.run_to_completion(completing)
            except DiskFullError:
                # Committed groups stay; the rest is tried again when there is room.
                job.finish()
                log.cleaned_offset = cleaned_offset
                raise
            finally:
                self.note_damage(log, job.damage)
        self.counters.compactions += 1
        return True

    async def expire(self, log: PartitionLog) -> None:
        """Apply retention: delete segments that are too old or too many."""
        async with self.changing(log):
            before = list(log.segments)
            job = begin_retention(log, self.clock_ms())
            if job is not None:
                self.counters.deleted_segments += sum(segment not in log.segments for segment in before)
                await self.run_job(job, log)
        if log.closed:
            self._commits.request_flush(log)

    async def check(self, log: PartitionLog, segment: Segment, job: CheckJob) -> bool:
        """One step of scrubbing; False where the log no longer has the segment."""
        async with self.changing(log):
            if segment not in log.segments:
                return False
            await self._workers.run_read_only(self._workers.maintenance_worker, job)
        return True

    @asynccontextmanager
    async def changing(self, log: PartitionLog) -> AsyncIterator[None]:
        """Hold the lock for changing the set of a log's segments; refuses a log that is deleted or failed."""
        async with self._lock(log.topic_partition):
            log.state.require_working()
            yield

    def _lock(self, at: TopicPartition) -> asyncio.Lock:
        return self._locks.setdefault(at, asyncio.Lock())

    # Workers

    async def run_job(self, job: Job, log: PartitionLog | None = None, *, survives_full_disk: bool = False) -> None:
        """Run a job of maintenance and install its outcome. A disk error fails the directory."""
        completing = self._workers.complete(
            self._workers.maintenance_worker, job, log, survives_full_disk=survives_full_disk
        )
        await self._workers.run_to_completion(completing)

    def _report_flushed(self, log: PartitionLog) -> None:
        if self.on_flushed is not None:
            self.on_flushed(log)

    def _run_flushes(
        self,
        jobs: list[FlushJob],
        then: Callable[[Postponed | None, BaseException | None], None],
        has_sole_client: bool,
    ) -> None:
        fsync_thread = self._workers.fsync_thread
        if has_sole_client and fsync_thread.is_quick and jobs[0].is_brief:
            fsync_thread.run_here(_run_all, jobs, then)
        else:
            fsync_thread.run(_run_all, jobs, then)


def _run_all(jobs: Sequence[FlushJob]) -> Postponed:
    postponed: Postponed = {}
    for job in jobs:
        try:
            job.run()
        except DiskFullError as error:
            postponed[job] = error
    return postponed

"""Staged files of a data directory: uploaded, ingested or appended, dropped, expired.

A large file becomes a segment (`segment_ingest`). A small one, or one for a log that does not store batches unchanged,
is appended batch by batch, each as if it had been sent. An append that was interrupted is continued by the repeated
request: the producer's last sequence number shows how many batches are there.

Rule 1: what is written to, ingested or deleted is locked by its name.
Rule 2: uploads are bounded by `log.staging.bytes.max`; a file counts as one block at least.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, closing, suppress
from typing import NamedTuple
from weakref import WeakValueDictionary

from qanat.log.admission import Admitted
from qanat.log.appended import Appended
from qanat.log.directories.directory import LogDirectory
from qanat.log.files import File
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.group_commit import GroupCommit
from qanat.log.runtime.waiting_appends import WRITTEN_ON_LOOP_BYTES, WaitingAppends
from qanat.log.runtime.workers import Workers
from qanat.log.segment_ingest import IngestJob, find_ingested, is_ingestible, sequences_there
from qanat.log.staged_parts import (
    StagedPart,
    open_staged,
    read_part,
    remove_staged,
    staged_parts,
    staged_sizes,
    write_chunk,
)
from qanat.model.errors import NotIngestedError, QanatError, StagingFullError, StorageError
from qanat.model.ids import NO_SEQUENCE
from qanat.wire.records import INT32_MAX
from qanat.wire.staged import FOLDER, INGEST_BYTES_MIN, StagedFile
from qanat.wire.staged_upload import DROPPED, StagedChunk

_BLOCK_BYTES = 4096


class _Known(NamedTuple):
    """A staged file: its size, and since when it has it."""

    size: int
    since_ms: int


class AppendSteps(NamedTuple):
    """What the runtime does for every append."""

    append: Callable[[PartitionLog, Admitted, int], Appended]
    """Append a batch that is small enough for the event loop, with the leader epoch."""
    note: Callable[[PartitionLog, Appended, int], None]
    """Count so many bytes that were appended otherwise."""
    wait_for_room: Callable[[PartitionLog], Awaitable[None]]
    """Wait while too many bytes are unflushed."""
    changing: Callable[[PartitionLog], AbstractAsyncContextManager[None]]
    """Hold the lock for changing the set of a log's segments."""


class StagedFiles:
    """The staged files of one data directory. Belongs to one event loop."""

    ingest_bytes_min = INGEST_BYTES_MIN

    def __init__(
        self,
        directory: LogDirectory,
        workers: Workers,
        waiting: WaitingAppends,
        commits: GroupCommit,
        steps: AppendSteps,
        clock_ms: Callable[[], int],
    ) -> None:
        self._directory = directory
        self._root = f"{directory.path}/{FOLDER}"
        self._workers = workers
        self._waiting = waiting
        self._commits = commits
        self._steps = steps
        self._clock_ms = clock_ms
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._ingesting: set[str] = set()
        self._known: dict[str, _Known] = {}
        self.bytes = 0
        """Bytes of all staged files, in blocks."""
        self.uploaded_bytes = 0
        self.expired_files = 0

    def __len__(self) -> int:
        return len(self._known)

    # Uploads

    async def store(self, log: PartitionLog, chunk: StagedChunk, leader_epoch: int) -> int:
        """Store a chunk of an upload, or delete its file; returns the size of the file."""
        log.state.require_working()
        log.require_leader(leader_epoch)
        # The chunk lies in the request's buffer: a worker must be done with it, even where the client is gone.
        return await self._waiting.uninterrupted(self._store(chunk))

    async def _store(self, chunk: StagedChunk) -> int:
        if chunk.name in self._ingesting:
            raise NotIngestedError(f"{chunk.name} is being ingested already")
        async with self._lock(chunk.name):
            if chunk.position == DROPPED:
                await self._remove(chunk.name)
                return 0
            before = self._known.get(chunk.name)
            size = before.size if before is not None else None
            # Counted before it is written: others are being written at the same time.
            self._note(chunk.name, max(chunk.end, size or 0))
            try:
                self._require_room()
                arguments = self._directory.files, self._root, chunk
                size = await self._workers.run(self._workers.makers, write_chunk, *arguments)
            finally:
                self._note(chunk.name, size)
            self.uploaded_bytes += len(chunk.data)
            return size

    def _require_room(self) -> None:
        limit = self._directory.settings.log_staging_bytes_max
        if self.bytes > limit:
            raise StagingFullError(
                f"this broker would hold {self.bytes} bytes of staged rows, log.staging.bytes.max is {limit}: they go "
                "with their commits, or after log.staging.retention.ms"
            )

    def _note(self, name: str, size: int | None) -> None:
        """Note the size of a file; None where there is none."""
        before = self._known.pop(name, None)
        if before is not None:
            self.bytes -= _blocks(before.size)
        if size is not None:
            self._known[name] = _Known(size, self._clock_ms())
            self.bytes += _blocks(size)

    async def _remove(self, name: str) -> None:
        await self._workers.run(self._workers.makers, remove_staged, self._directory.files, self._root, name)
        self._note(name, None)

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())

    async def expire(self) -> None:
        """Delete files that did not grow for `log.staging.retention.ms`; a restart begins anew.

        What was written to or taken while the folder was read is left for the next time.
        """
        before = dict(self._known)
        found = await self._workers.run(
            self._workers.maintenance_worker, staged_sizes, self._directory.files, self._root
        )
        for name in before.keys() | found.keys():
            known, lock = before.get(name), self._lock(name)
            if self._known.get(name) is not known or name in self._ingesting or lock.locked():
                continue
            size = found.get(name)
            if known is None or known.size != size:
                self._note(name, size)
            elif self._clock_ms() - known.since_ms >= self._directory.settings.log_staging_retention_ms:
                async with lock:
                    await self._remove(name)
                self.expired_files += 1

    # Into the log

    async def ingest(self, log: PartitionLog, staged: StagedFile, leader_epoch: int) -> tuple[Appended, int]:
        """Make a staged file the end of a log, whose append queue the caller holds; returns the file's size, too."""
        header, name = staged.header, staged.name
        if (written := find_ingested(log, header, leader_epoch)) is not None:
            return written, 0
        if name in self._ingesting:
            raise NotIngestedError(f"{name} is being ingested already")
        self._ingesting.add(name)
        try:
            async with self._lock(name):
                return await self._ingest(log, staged, leader_epoch)
        finally:
            self._ingesting.remove(name)

    async def _ingest(self, log: PartitionLog, staged: StagedFile, leader_epoch: int) -> tuple[Appended, int]:
        path = f"{self._root}/{staged.name}"
        run, makers = self._workers.run, self._workers.makers
        file = await run(makers, open_staged, self._directory.files, path)
        with closing(file):
            size = await run(makers, file.size)
            is_segment = self.ingest_bytes_min <= size <= log.settings.segment_bytes and is_ingestible(log)
            if not is_segment or sequences_there(log, staged.header):
                appended = await self._append(log, file, staged, leader_epoch)
                with suppress(StorageError):  # It expires.
                    await self._remove(staged.name)
                return appended, size
        async with self._steps.changing(log):
            appended, size = await self._rename(log, path, staged, leader_epoch)
        self._note(staged.name, None)
        return appended, size

    async def _rename(
        self, log: PartitionLog, path: str, staged: StagedFile, leader_epoch: int
    ) -> tuple[Appended, int]:
        header = staged.header
        checked = await self._waiting.check_staged(log, path, header.record_count)
        try:
            await self._steps.wait_for_room(log)
            find_ingested(log, header, leader_epoch)  # Its transaction may have ended meanwhile.
            job = IngestJob(log, checked, header, leader_epoch, self._clock_ms())
        except QanatError:
            checked.file.close()
            raise
        appended = await self._waiting.ingest(log, job, lambda: self._commits.idle(log))
        self._steps.note(log, appended, checked.size)
        return appended, checked.size

    async def _append(self, log: PartitionLog, file: File, staged: StagedFile, leader_epoch: int) -> Appended:
        """Append the batches of a file one by one, those that are not there yet."""
        header = staged.header
        run, makers = self._workers.run, self._workers.makers
        # All are checked first: nothing is appended of a file that has changed.
        arguments = file, header.record_count, log.settings.max_message_bytes
        parts: list[StagedPart] = await run(makers, staged_parts, *arguments)
        sequence = header.base_sequence
        known = there = sequences_there(log, header)
        first: Appended | None = None
        last: Appended | None = None
        for part in parts:
            if there >= part.records:
                there -= part.records
            else:
                batch = await run(makers, read_part, file, part, header, sequence)
                last = await self._append_one(log, batch, leader_epoch)
                first = first or last
            if sequence != NO_SEQUENCE:
                sequence = (sequence + part.records) & INT32_MAX
        assert first is not None, "a file that is there as a whole was found before"
        assert last is not None, "the first is the last at least"
        return Appended(first.base_offset - known, last.last_offset, False, last.is_flush_due)

    async def _append_one(self, log: PartitionLog, batch: bytearray, leader_epoch: int) -> Appended:
        await self._waiting.fairness.take(len(batch))
        admitted = await self._waiting.admit(batch, log.settings)
        await self._steps.wait_for_room(log)
        log.state.require_working()
        if len(admitted.batch) <= WRITTEN_ON_LOOP_BYTES:
            return self._steps.append(log, admitted, leader_epoch)
        appended = await self._waiting.write(log, admitted, leader_epoch)
        self._steps.note(log, appended, 0 if appended.is_duplicate else len(admitted.batch))
        return appended


def _blocks(size: int) -> int:
    """What a file takes on the disk, about."""
    return max(1, -(-size // _BLOCK_BYTES)) * _BLOCK_BYTES

"""Ingest of staged files, together with everything else that happens to a log."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from tests.log.batches import Writer, batch
from tests.log.directories import (
    AT,
    PATH,
    TOPIC_ID,
    WatchedFiles,
    WorkerBarrier,
    produce,
    running_log,
    until,
    values_read,
)
from tests.log.test_segment_ingest import stage

from qanat.adapters.memory_files import MemoryFiles
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.runtime.staged_files import StagedFiles
from qanat.model.errors import NotIngestedError, NotLeaderError, QanatError, StorageError
from qanat.model.ids import LeaderEpoch, TopicPartition
from qanat.wire.control import Marker
from qanat.wire.records import set_producer
from qanat.wire.staged import StagedFile, read_staged, staged_batch


@pytest.fixture(autouse=True)
def _every_file_becomes_a_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StagedFiles, "ingest_bytes_min", 0)


NAME = "some/0123456789abcdef0123456789abcdef"
SETTINGS: dict[str, Any] = {"segment_bytes": 100_000, "flush_messages": 1}


def staged(runtime: LogRuntime, batches: Sequence[bytes], records: int, writer: Writer | None = None) -> StagedFile:
    stage(runtime.directory.files, batches, f"{PATH}/staging/{NAME}")
    sent = staged_batch(NAME, records)
    if writer is not None:
        set_producer(sent, writer.producer_id, writer.epoch, writer.sequence, is_transactional=True)
    return read_staged(sent)


class HeldWorkers:
    """Files that block an ingest, when it reads or when it writes."""

    def __init__(self, *, at_reading: bool = False) -> None:
        self.files = WatchedFiles(MemoryFiles())
        self.barrier = WorkerBarrier()
        self.fault: StorageError | None = None
        if at_reading:
            self.files.before_read = self._before
        else:
            self.files.before_write = self._before

    def _before(self, path: str) -> None:
        if threading.current_thread().name.startswith("log-make") and path.endswith(NAME):
            self.barrier(path)
            if self.fault is not None:
                raise self.fault


def test_it_is_durable_when_its_flush_is_and_not_before() -> None:
    async def main() -> None:
        async with running_log(**SETTINGS) as (runtime, log):
            await produce(runtime, log)
            appended, size = await runtime.ingest(log, staged(runtime, [batch(2), batch(3)], 5), 0)
            assert (appended.base_offset, appended.last_offset, appended.is_flush_due) == (1, 5, True)
            assert size == len(batch(2)) + len(batch(3))
            await runtime.flushed(log, 6)
            assert (log.flushed_offset, log.closed, log.unflushed_bytes) == (6, [], 0)
            assert len(await values_read(runtime, log)) == 6

    asyncio.run(main())


@pytest.mark.parametrize("at_reading", [True, False])
def test_whoever_appends_meanwhile_comes_behind(at_reading: bool) -> None:
    async def main() -> None:
        held = HeldWorkers(at_reading=at_reading)
        async with running_log(held.files, **SETTINGS) as (runtime, log):
            adopting = asyncio.create_task(runtime.ingest(log, staged(runtime, [batch(2)], 2), 0))
            await until(lambda: held.barrier.is_reached)
            assert runtime.append_now(log, batch(1), 0) is None
            waiting = asyncio.create_task(runtime.append(log, batch([(b"k", b"later")]), 0))
            await asyncio.sleep(0.01)
            assert log.end_offset == 0

            held.barrier.open()

            assert (await adopting)[0].base_offset == 0
            assert (await waiting).base_offset == 2
            assert (await values_read(runtime, log))[-1] == b"later"

    asyncio.run(main())


def test_an_empty_segment_that_is_being_flushed_is_not_closed_under_the_flush() -> None:
    async def main() -> None:
        files = WatchedFiles(MemoryFiles())
        barrier = WorkerBarrier()
        async with running_log(files, **SETTINGS) as (runtime, log):
            files.before_sync = barrier
            log.become_leader(LeaderEpoch(3))
            flushing = asyncio.create_task(runtime.flushed(log, 0))
            runtime._commits.request_flush(log)
            await until(lambda: barrier.is_reached or not log.is_flushing)
            adopting = asyncio.create_task(runtime.ingest(log, staged(runtime, [batch(2)], 2), 3))
            await asyncio.sleep(0.05)
            assert not adopting.done()

            barrier.open()
            await asyncio.gather(adopting, flushing)
            await runtime.flushed(log, 2)
            assert (len(log.segments), log.flushed_offset) == (1, 2)

    asyncio.run(main())


def test_a_client_that_goes_away_changes_nothing() -> None:
    async def main() -> None:
        held = HeldWorkers()
        async with running_log(held.files, **SETTINGS) as (runtime, log):
            adopting = asyncio.create_task(runtime.ingest(log, staged(runtime, [batch(2)], 2), 0))
            await until(lambda: held.barrier.is_reached)
            adopting.cancel()
            await asyncio.sleep(0.01)
            held.barrier.open()
            await asyncio.wait([adopting])
            assert (log.end_offset, log.is_appending) == (2, False)
            await produce(runtime, log)

    asyncio.run(main())


def test_a_log_that_is_deleted_meanwhile_goes_afterwards() -> None:
    async def main() -> None:
        held = HeldWorkers()
        async with running_log(held.files, **SETTINGS) as (runtime, log):
            adopting = asyncio.create_task(runtime.ingest(log, staged(runtime, [batch(2)], 2), 0))
            await until(lambda: held.barrier.is_reached)
            deleting = asyncio.create_task(runtime.delete(AT))
            await asyncio.sleep(0.01)
            assert AT in runtime.directory.logs
            held.barrier.open()
            await asyncio.gather(adopting, deleting)
            assert AT not in runtime.directory.logs
            with pytest.raises(QanatError):
                await runtime.ingest(log, staged(runtime, [batch(2)], 2), 0)

    asyncio.run(main())


def test_a_file_that_cannot_be_written_to_and_a_lost_leadership_cost_nothing_else() -> None:
    async def refused(fault: StorageError | None, kind: type[QanatError]) -> None:
        held = HeldWorkers()
        held.fault = fault
        async with running_log(held.files, **SETTINGS) as (runtime, log):
            adopting = asyncio.create_task(runtime.ingest(log, staged(runtime, [batch(2)], 2), 0))
            await until(lambda: held.barrier.is_reached)
            if fault is None:
                log.become_follower(LeaderEpoch(1))
            held.barrier.open()
            with pytest.raises(kind):
                await adopting
            assert (log.end_offset, log.is_appending, log.state.failure) == (0, False, None)
            await produce(runtime, log, content=batch(1)) if fault is not None else None

    asyncio.run(refused(StorageError("bad sector"), NotIngestedError))
    asyncio.run(refused(None, NotLeaderError))


def test_what_is_on_its_way_to_the_disk_is_counted_once() -> None:
    async def main() -> None:
        async with running_log(segment_bytes=100_000, flush_messages=2**63 - 1) as (runtime, log):
            await runtime.append(log, batch(1), 0)
            adopting = asyncio.create_task(runtime.ingest(log, staged(runtime, [batch(20)] * 5, 100), 0))
            behind = asyncio.create_task(runtime.append(log, batch(1), 0))
            await asyncio.gather(adopting, behind)
            await runtime.flushed(log, log.end_offset)
            assert (log.unflushed_bytes, log.state.unflushed_bytes) == (0, 0)

    asyncio.run(main())


def test_one_file_is_taken_over_by_one_log() -> None:
    async def main() -> None:
        held = HeldWorkers(at_reading=True)
        async with running_log(held.files, **SETTINGS) as (runtime, log):
            other = await runtime.create(TopicPartition("t", 1), TOPIC_ID, log.settings)
            sent = staged(runtime, [batch(2)], 2)
            first = asyncio.create_task(runtime.ingest(log, sent, 0))
            await until(lambda: held.barrier.is_reached)
            with pytest.raises(NotIngestedError, match="already"):
                await runtime.ingest(other, sent, 0)
            held.barrier.open()
            await first
            with pytest.raises(NotIngestedError, match="no staged file"):
                await runtime.ingest(other, sent, 0)
            assert (log.end_offset, other.end_offset) == (2, 0)

    asyncio.run(main())


def test_a_transaction_that_is_ended_while_its_file_is_looked_at_gets_nothing_more() -> None:
    async def main() -> None:
        held = HeldWorkers(at_reading=True)
        async with running_log(held.files, **SETTINGS) as (runtime, log):
            log.producers.requires_verification = True
            log.producers.complete_verification(7, 0, log.producers.begin_verification(7))
            adopting = asyncio.create_task(runtime.ingest(log, staged(runtime, [batch(2)], 2, Writer(7)), 0))
            await until(lambda: held.barrier.is_reached)
            runtime.append_marker(log, 7, 0, Marker(is_commit=False, coordinator_epoch=0), 0, 0)
            held.barrier.open()
            with pytest.raises(QanatError, match="no transaction"):
                await adopting
            assert log.end_offset == 1

    asyncio.run(main())


def test_asked_for_again_it_is_found_and_one_that_is_not_there_is_said_so() -> None:
    async def main() -> None:
        async with running_log(**SETTINGS) as (runtime, log):
            sent = staged(runtime, [batch(2)] * 3, 6, Writer(7))
            first, _ = await runtime.ingest(log, sent, 0)
            again, size = await runtime.ingest(log, sent, 0)
            assert (again.base_offset, again.is_duplicate, size) == (first.base_offset, True, 0)
            later = staged_batch(NAME, 6)
            set_producer(later, 7, 0, 6, is_transactional=True)
            with pytest.raises(NotIngestedError, match="no staged file"):
                await runtime.ingest(log, read_staged(later), 0)
            assert log.end_offset == 6

    asyncio.run(main())

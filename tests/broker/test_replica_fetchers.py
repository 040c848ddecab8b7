"""A follower fetches only while everything that its offset claims is on its disk."""

from __future__ import annotations

import asyncio

from tests.log.batches import batch
from tests.log.directories import AT, WatchedFiles, WorkerBarrier, running_log, until

from qanat.adapters.memory_files import MemoryFiles
from qanat.broker.replicas.local_replicas import FollowerReplica
from qanat.broker.replicas.replica_fetchers import _is_settled
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.waiting_appends import WRITTEN_ON_LOOP_BYTES


def reader_of(log: PartitionLog) -> FollowerReplica:
    return FollowerReplica(AT, b"\1" * 16, log, leader=1, leader_epoch=3)


async def test_a_copy_is_settled_when_all_of_it_is_on_disk_and_not_while_fsync_runs() -> None:
    barrier, files = WorkerBarrier(), WatchedFiles(MemoryFiles())
    async with running_log(files) as (runtime, log):
        assert _is_settled(reader_of(log))
        files.before_sync = barrier
        appended = await runtime.append(log, batch(1), 0)
        flushed = asyncio.ensure_future(runtime.flushed(log, appended.last_offset + 1))
        await until(lambda: barrier.is_reached)
        assert not _is_settled(reader_of(log))

        barrier.open()
        await flushed
        assert _is_settled(reader_of(log))


async def test_a_copy_of_a_topic_that_leaves_flushing_to_the_kernel_is_settled_when_it_is_written() -> None:
    async with running_log(flush_messages=1000) as (runtime, log):
        await runtime.append(log, batch(1), 0)

        assert log.flushed_offset < log.end_offset
        assert _is_settled(reader_of(log))


async def test_a_copy_is_not_settled_while_a_worker_still_writes_what_we_took_as_leader() -> None:
    barrier, files, large = (
        WorkerBarrier(),
        WatchedFiles(MemoryFiles()),
        batch([(b"key", bytes(WRITTEN_ON_LOOP_BYTES))]),
    )
    async with running_log(files, max_message_bytes=2 * len(large), flush_messages=1000) as (runtime, log):
        files.before_write = barrier
        writing = asyncio.create_task(runtime.append(log, large, 0))
        await until(lambda: barrier.is_reached)
        assert not _is_settled(reader_of(log))

        barrier.open()
        await writing
        assert _is_settled(reader_of(log))


async def test_a_copy_is_not_settled_while_it_is_being_cut() -> None:
    barrier, files = WorkerBarrier(), WatchedFiles(MemoryFiles())
    async with running_log(files, flush_messages=1000) as (runtime, log):
        for _ in range(4):
            await runtime.append(log, batch(1), 0)
        await runtime.flushed(log, 4)
        files.before_sync = barrier
        cutting = asyncio.create_task(runtime.truncate(log, 2))
        await until(lambda: barrier.is_reached)
        assert log.running_job == "truncation"
        assert not _is_settled(reader_of(log))

        barrier.open()
        await cutting
        assert log.end_offset == 2
        assert _is_settled(reader_of(log))

"""New logs are made in workers, several at a time."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.log.batches import log_settings
from tests.log.directories import (
    AT,
    PATH,
    TOPIC_ID,
    WatchedFiles,
    WorkerBarrier,
    opened,
    pass_by,
    produce,
    running,
    until,
)

from qanat.adapters.memory_files import MemoryFiles
from qanat.log.atomic_files import read_whole
from qanat.log.directories import checkpoints
from qanat.log.directories.checkpoints import decode_offsets
from qanat.log.runtime.workers import LOGS_MADE_AT_ONCE
from qanat.model.errors import DiskFullError, StorageError
from qanat.model.ids import TopicPartition
from qanat.testing.simulation.disk import SimDisk

MANY = [TopicPartition("many", number) for number in range(20)]


def test_the_loop_goes_on_while_a_log_is_made() -> None:
    async def main() -> None:
        files, barrier = WatchedFiles(MemoryFiles()), WorkerBarrier()
        async with running(opened(files)) as runtime:
            files.before_sync_directory = barrier
            making = asyncio.create_task(runtime.create(AT, TOPIC_ID, log_settings()))
            await until(lambda: barrier.is_reached)

            assert AT not in runtime.directory.logs
            barrier.open()
            assert await making is runtime.directory.logs[AT]

    asyncio.run(main())


def test_several_logs_are_made_at_a_time_by_workers_of_their_own() -> None:
    async def main() -> None:
        files, workers = WatchedFiles(MemoryFiles()), set[str]()
        together = threading.Barrier(LOGS_MADE_AT_ONCE, timeout=20)
        async with running(opened(files)) as runtime:

            def meet(_: str) -> None:
                workers.add(threading.current_thread().name)
                together.wait()

            files.before_sync = meet
            first = MANY[:LOGS_MADE_AT_ONCE]
            await asyncio.gather(*(runtime.create(at, TOPIC_ID, log_settings()) for at in first))
            files.before_sync = pass_by
            await asyncio.gather(*(runtime.create(at, TOPIC_ID, log_settings()) for at in MANY[LOGS_MADE_AT_ONCE:]))

            assert sorted(runtime.directory.logs, key=lambda at: at.partition) == MANY
            assert all(name.startswith("log-make") for name in workers)

    asyncio.run(main())


def test_who_is_cancelled_leaves_a_whole_log() -> None:
    async def main() -> None:
        files, barrier = WatchedFiles(MemoryFiles()), WorkerBarrier()
        async with running(opened(files)) as runtime:
            files.before_sync_directory = barrier
            making = asyncio.create_task(runtime.create(AT, TOPIC_ID, log_settings()))
            await until(lambda: barrier.is_reached)
            making.cancel()
            barrier.open()
            with pytest.raises(asyncio.CancelledError):
                await making

            await produce(runtime, runtime.directory.logs[AT])

    asyncio.run(main())


def test_what_the_checkpoints_say_of_a_log_is_forgotten_before_its_name_is_used_again() -> None:
    async def main() -> None:
        files = MemoryFiles()
        async with running(opened(files)) as runtime:
            log = await runtime.create(AT, TOPIC_ID, log_settings())
            await produce(runtime, log, 3)
            await runtime.checkpoint()
            await runtime.delete(AT)
            await runtime.create(AT, "another", log_settings())
            hints = [decode_offsets(read_whole(files, f"{PATH}/{name}")) for name in checkpoints.FILES]

            assert [hint.get(AT, 0) for hint in hints] == [0] * len(hints)

    asyncio.run(main())


def refuse(_: str) -> None:
    raise DiskFullError("no room")


def test_a_full_disk_makes_no_log_and_costs_nothing_else() -> None:
    async def main() -> None:
        files = WatchedFiles(MemoryFiles())
        async with running(opened(files)) as runtime:
            files.before_write = refuse
            with pytest.raises(DiskFullError):
                await runtime.create(AT, TOPIC_ID, log_settings())
            files.before_write = pass_by

            assert AT not in runtime.directory.logs
            await produce(runtime, await runtime.create(AT, TOPIC_ID, log_settings()))

    asyncio.run(main())


def test_a_disk_that_fails_while_a_log_is_made_fails_the_directory() -> None:
    async def main() -> None:
        disk = SimDisk(1)
        async with running(opened(disk)) as runtime:
            disk.fail_next("sync", "partition.metadata.tmp")
            with pytest.raises(StorageError):
                await runtime.create(AT, TOPIC_ID, log_settings())

            assert runtime.directory.state.failure is not None

    asyncio.run(main())

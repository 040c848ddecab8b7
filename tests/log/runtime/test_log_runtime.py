"""Logs at work: cold reads, changes one at a time, and callers that go away in the middle."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.log.batches import NOW, Writer, batch, log_settings
from tests.log.directories import (
    AT,
    PATH,
    TOPIC_ID,
    WatchedFiles,
    WorkerBarrier,
    opened,
    produce,
    running,
    running_log,
    until,
    values_read,
)

from qanat.adapters.memory_catalogue import MemoryCatalogue
from qanat.adapters.memory_files import MemoryFiles
from qanat.adapters.os_files import OsFiles
from qanat.log.atomic_files import read_whole
from qanat.log.directories import checkpoints
from qanat.log.directories.checkpoints import decode_offsets
from qanat.log.page_warmup import CheckJob, is_resident
from qanat.log.segments import file_names
from qanat.log.settings import DirectorySettings
from qanat.model.errors import (
    CorruptLogError,
    DirectoryFailedError,
    DiskFullError,
    OffsetOutOfRangeError,
    PartitionDeletedError,
    StorageError,
)
from qanat.model.ids import TopicPartition
from qanat.testing.simulation.disk import SimDisk
from qanat.testing.simulation.disk_faults import DiskFaults

COLD = DiskFaults(cold_chance=1.0)


def value(number: int) -> bytes:
    return b"value %d " % number * 10


def one(number: int) -> bytes:
    return batch([(b"key", value(number))])


# Reading


def test_a_cold_read_goes_through_a_worker_and_finds_everything() -> None:
    async def main() -> None:
        disk = SimDisk(1)
        readers: set[str] = set()
        files = WatchedFiles(disk)
        async with running_log(files, segment_bytes=1000) as (runtime, log):
            for number in range(40):
                await produce(runtime, log, 1, one(number))
            disk.faults = COLD
            files.before_read = lambda _: readers.add(threading.current_thread().name)

            assert await values_read(runtime, log) == [value(number) for number in range(40)]
            assert runtime.counters.cold_reads > len(log.segments)
            assert all(name.startswith("log-read") for name in readers)
            assert await values_read(runtime, log, 33) == [value(number) for number in range(33, 40)]

    asyncio.run(main())


@pytest.mark.parametrize("hurt", [0, 7, 19, 39])
def test_damage_is_found_before_cold_bytes_are_handed_out(hurt: int) -> None:
    async def main() -> None:
        disk, catalogue = SimDisk(2), MemoryCatalogue()
        async with running_log(disk, catalogue=catalogue, segment_bytes=1000) as (runtime, log):
            for number in range(40):
                await produce(runtime, log, 1, one(number))
            segment = log.usable(log.segment_index(hurt))
            disk.rot(segment.path(file_names.LOG), 8 * (segment.position_of(hurt) + 70))
        disk.faults = COLD
        async with running(opened(disk, catalogue)) as runtime:
            log = runtime.directory.logs[AT]
            with pytest.raises(CorruptLogError, match=rf"offsets {hurt} to {hurt + 1} \(exclusive\) are damaged"):
                await runtime.read(log, hurt, 300)
            before = log.segment_at(hurt).base_offset
            whole = [value(number) for number in range(40)]

            if hurt > before:
                read = await runtime.read(log, before, 10_000)
                assert read.next_offset == hurt
            assert await values_read(runtime, log, hurt + 1) == whole[hurt + 1 :]
            assert runtime.counters.damage_found == 1
            assert runtime.directory.state.failure is None

    asyncio.run(main())


def test_what_cannot_be_read_concerns_the_reader_only() -> None:
    async def main() -> None:
        disk = SimDisk(3)
        async with running_log(disk, segment_bytes=1000) as (runtime, log):
            await produce(runtime, log, 20)
            disk.faults = COLD
            disk.fail_next("read", ".log")
            with pytest.raises(StorageError, match="cannot read"):
                await runtime.read(log, 0, 100)

            assert runtime.directory.state.failure is None
            assert len(await values_read(runtime, log)) == 20
            await produce(runtime, log)

    asyncio.run(main())


def test_outside_the_log_nothing_is_warmed() -> None:
    async def main() -> None:
        disk = SimDisk(4, COLD)
        async with running_log(disk) as (runtime, log):
            await produce(runtime, log, 3)

            assert (await runtime.read(log, 3, 100)).size == 0
            with pytest.raises(OffsetOutOfRangeError):
                await runtime.read(log, 4, 100)
            assert runtime.counters.cold_reads == 0

    asyncio.run(main())


def evict(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="needs posix_fadvise")
def test_a_file_that_left_memory_is_read_beside_the_loop_and_warm_afterwards(tmp_path: Path) -> None:
    path, catalogue = str(tmp_path / "data"), MemoryCatalogue()
    settings = log_settings(segment_bytes=1 << 22)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async def write() -> None:
        async with running(opened(OsFiles(), catalogue, path=path, topic_settings=settings)) as runtime:
            log = await runtime.create(AT, TOPIC_ID, settings)
            for _ in range(200):
                await runtime.append(log, batch([(None, os.urandom(10_000))]), 0)

    async def read() -> None:
        async with running(opened(OsFiles(), catalogue, path=path, topic_settings=settings)) as runtime:
            log = runtime.directory.logs[AT]
            evict(log.active.path(file_names.LOG))
            if is_resident(log.active, 100, 50_000):
                pytest.skip("this file system keeps its pages (tmpfs does)")
            heartbeat = asyncio.create_task(tick())
            found = await runtime.read(log, 100, 50_000)
            heartbeat.cancel()

            assert found.size > 30_000
            assert found.is_resident()
            assert ticks > 1
            await runtime.read(log, 100, 30_000)
            assert runtime.counters.cold_reads == 1

    asyncio.run(write())
    asyncio.run(read())


def test_a_segment_is_not_closed_under_a_cold_read() -> None:
    async def main() -> None:
        disk = SimDisk(5)
        files, barrier = WatchedFiles(disk), WorkerBarrier()
        async with running_log(files, segment_bytes=500, cleanup_policy="compact") as (runtime, log):
            await produce(runtime, log, 30)
            log.advance_high_watermark(30)
            disk.faults = COLD
            files.before_read = lambda path: (
                barrier(path) if threading.current_thread().name.startswith("log-read") else None
            )
            reading = asyncio.create_task(runtime.read(log, 0, 200))
            await until(lambda: barrier.is_reached)
            compacting = asyncio.create_task(runtime.compact(log, lambda _: None))
            await until(lambda: files.count("rename", file_names.SWAP) > 0)
            await asyncio.sleep(0.05)

            assert not compacting.done()  # It has done its work, and waits for the reader.
            barrier.open()
            read = await reading
            assert read.size > 0
            assert await compacting
            assert log.segments[0].next_offset > 3

    asyncio.run(main())


def test_records_are_found_by_time_while_segments_come_and_go() -> None:
    async def main() -> None:
        async with running_log(segment_bytes=500) as (runtime, log):
            for number in range(20):
                content = batch([(b"k", value(number)), (b"k", b"")], timestamps=[NOW + 10 * number, NOW - 5])
                await produce(runtime, log, 1, content)
            log.advance_high_watermark(40)

            found = await runtime.find_timestamp(log, NOW + 55)
            assert found == (NOW + 60, 12)
            # The record that made its batch look new enough lies before the log's start.
            log.advance_log_start(13)
            assert await runtime.find_timestamp(log, NOW + 60) == (NOW + 70, 14)
            assert await runtime.find_timestamp(log, NOW + 1000) is None

    asyncio.run(main())


# Changing


def test_a_truncation_waits_for_the_flush_under_way() -> None:
    async def main() -> None:
        files, barrier = WatchedFiles(MemoryFiles()), WorkerBarrier()
        async with running_log(files) as (runtime, log):
            await produce(runtime, log, 5)
            # Of the log only: the checkpoints that come first must not be what it waits for.
            files.before_sync = lambda path: barrier(path) if path.endswith(file_names.LOG) else None
            await runtime.append(log, batch(1), 0)
            await until(lambda: barrier.is_reached)
            truncating = asyncio.create_task(runtime.truncate(log, 3))
            await asyncio.sleep(0.02)

            assert not truncating.done()
            assert log.end_offset == 6
            barrier.open()
            await truncating
            assert (log.end_offset, log.flushed_offset) == (3, 3)
            await produce(runtime, log)
            assert log.end_offset == 4

    asyncio.run(main())


def test_readers_keep_what_they_were_handed_while_the_log_is_cut() -> None:
    async def main() -> None:
        for files in (MemoryFiles(), SimDisk(6)):
            async with running_log(files, segment_bytes=500) as (runtime, log):
                for number in range(20):
                    await produce(runtime, log, 1, one(number))
                views = [view for offset in range(20) for view in (await runtime.read(log, offset, 1)).views()]
                before = [bytes(view) for view in views]
                await runtime.truncate(log, 2)
                for number in range(100, 120):
                    await produce(runtime, log, 1, one(number))

                assert [bytes(view) for view in views] == before
                assert await values_read(runtime, log, 2) == [value(number) for number in range(100, 120)]

    asyncio.run(main())


def test_no_checkpoint_promises_more_than_a_cut_inside_a_batch_leaves() -> None:
    async def main() -> None:
        files = MemoryFiles()
        async with running_log(files) as (runtime, log):
            for _ in range(3):
                await produce(runtime, log, 1, batch(4))
            await runtime.checkpoint()
            await runtime.truncate(log, 6)

            assert log.end_offset == 4
            assert decode_offsets(read_whole(files, f"{PATH}/{checkpoints.RECOVERY_POINT}"))[AT] <= 4

    asyncio.run(main())


def test_a_truncation_lowers_the_checkpoints_before_it_cuts() -> None:
    async def main() -> None:
        files = WatchedFiles(MemoryFiles())
        async with running_log(files, segment_bytes=500) as (runtime, log):
            await produce(runtime, log, 20)
            await runtime.checkpoint()
            files.acts.clear()
            await runtime.truncate(log, 7)
            acts = [path.rpartition("/")[2] for act, path in files.acts if act in ("rename", "remove")]

            assert acts.index(checkpoints.RECOVERY_POINT) < acts.index(
                log.active.path(file_names.LOG).rpartition("/")[2]
            )
            assert decode_offsets(read_whole(files, f"{PATH}/{checkpoints.RECOVERY_POINT}"))[AT] <= log.end_offset == 7
            assert not runtime.directory.truncating

    asyncio.run(main())


def test_a_caller_who_goes_away_leaves_no_half_cut_log() -> None:
    async def main() -> None:
        files, barrier = WatchedFiles(MemoryFiles()), WorkerBarrier()
        async with running_log(files, segment_bytes=500) as (runtime, log):
            await produce(runtime, log, 20)
            files.before_sync = lambda path: barrier(path) if path.endswith(file_names.TRUNCATED) else None
            truncating = asyncio.create_task(runtime.truncate(log, 7))
            await until(lambda: barrier.is_reached)
            for _ in range(3):
                truncating.cancel()
                await asyncio.sleep(0.01)

            assert not truncating.done()
            barrier.open()
            with pytest.raises(asyncio.CancelledError):
                await truncating
            assert (log.end_offset, log.running_job) == (7, None)
            await produce(runtime, log)

    asyncio.run(main())


def test_changes_of_one_log_come_one_after_the_other() -> None:
    async def main() -> None:
        files, barrier = WatchedFiles(MemoryFiles()), WorkerBarrier()
        async with running_log(files, segment_bytes=500, cleanup_policy="compact,delete", retention_bytes=600) as (
            runtime,
            log,
        ):
            await produce(runtime, log, 30)
            log.advance_high_watermark(30)
            files.before_sync = lambda path: barrier(path) if path.endswith(file_names.CLEANED) else None
            compacting = asyncio.create_task(runtime.compact(log, lambda _: None))
            await until(lambda: barrier.is_reached)
            others = [
                asyncio.create_task(runtime.expire(log)),
                asyncio.create_task(runtime.truncate(log, 29)),
                asyncio.create_task(runtime.expire(log)),
            ]
            await asyncio.sleep(0.02)

            assert log.running_job == "compaction"
            assert not any(task.done() for task in others)
            barrier.open()
            assert await compacting
            await asyncio.gather(*others)
            assert log.end_offset == 29
            assert log.running_job is None

    asyncio.run(main())


def test_compaction_of_one_log_holds_up_no_other() -> None:
    other = TopicPartition("other", 0)

    async def main() -> None:
        files, barrier = WatchedFiles(MemoryFiles()), WorkerBarrier()
        async with running_log(files, segment_bytes=500, cleanup_policy="compact") as (runtime, log):
            await produce(runtime, log, 30)
            log.advance_high_watermark(30)
            neighbour = await runtime.create(other, TOPIC_ID, log_settings())
            await produce(runtime, neighbour, 3)
            compacting = asyncio.create_task(runtime.compact(log, lambda _: barrier("")))
            await until(lambda: barrier.is_reached)
            async with asyncio.timeout(60):
                await runtime.truncate(neighbour, 1)
                await runtime.checkpoint()
                await runtime.delete(other)
                await produce(runtime, log)
            barrier.open()
            assert await compacting

    asyncio.run(main())


@pytest.mark.parametrize("job", ["checkpoint", "truncation", "retention", "compaction"])
def test_a_failed_sync_in_a_job_fails_the_directory(job: str) -> None:
    async def main() -> None:
        files, catalogue = WatchedFiles(MemoryFiles()), MemoryCatalogue()
        async with running_log(
            files, catalogue=catalogue, segment_bytes=500, cleanup_policy="compact,delete", retention_bytes=600
        ) as (runtime, log):
            await produce(runtime, log, 30)
            log.advance_high_watermark(30)
            await runtime.checkpoint()

            def refuse(path: str) -> None:
                raise StorageError(f"cannot sync {path}: input/output error")

            if job == "retention":
                files.before_sync_directory = refuse
            else:
                files.before_sync = refuse
            acts: dict[str, Callable[[], Awaitable[object]]] = {
                "checkpoint": runtime.checkpoint,
                "truncation": lambda: runtime.truncate(log, 5),
                "retention": lambda: runtime.expire(log),
                "compaction": lambda: runtime.compact(log, lambda _: None),
            }
            with pytest.raises(StorageError, match="input/output error"):
                await acts[job]()
            files.before_sync = files.before_sync_directory = lambda _: None

            with pytest.raises(DirectoryFailedError):
                await runtime.append(log, batch(1), 0)
            with pytest.raises(DirectoryFailedError):
                await runtime.flushed(log, 30)
            for act in acts.values():
                with pytest.raises(DirectoryFailedError):
                    await act()
        assert not files.exists(f"{PATH}/.kafka_cleanshutdown")
        assert opened(files, catalogue).logs[AT].end_offset == 30

    asyncio.run(main())


def test_a_cut_of_what_no_checkpoint_speaks_of_syncs_one_file_and_fails_the_directory_with_it() -> None:
    async def main() -> None:
        files = WatchedFiles(MemoryFiles())
        async with running_log(files) as (runtime, log):
            await produce(runtime, log, 5)
            await runtime.checkpoint()
            await produce(runtime, log, 5)
            synced: list[str] = []
            files.before_sync = files.before_sync_directory = synced.append
            await runtime.truncate(log, 7)
            assert synced == [log.active.file.path]
            assert log.end_offset == 7
            await runtime.truncate(log, 4)
            assert f"{PATH}/{checkpoints.RECOVERY_POINT}.tmp" in synced, "a checkpoint spoke of more"

            def refuse(path: str) -> None:
                raise StorageError(f"cannot sync {path}: input/output error")

            await produce(runtime, log, 2)
            files.before_sync = refuse
            with pytest.raises(StorageError, match="input/output error"):
                await runtime.truncate(log, 5)
            files.before_sync = files.before_sync_directory = lambda _: None
            with pytest.raises(DirectoryFailedError):
                await runtime.append(log, batch(1), 0)

    asyncio.run(main())


def test_a_file_is_not_cut_under_a_cold_read_which_would_take_that_for_damage() -> None:
    async def main() -> None:
        disk, writing, reading = SimDisk(4), WorkerBarrier(), WorkerBarrier()
        files = WatchedFiles(disk)
        async with running_log(files) as (runtime, log):
            await produce(runtime, log, 10)
            await runtime.checkpoint()
            size = log.active.size
            files.before_sync = lambda path: writing(path) if checkpoints.CLEANED in path else None
            cutting = asyncio.create_task(runtime.truncate(log, 7))
            await until(lambda: writing.is_reached)
            disk.faults, files.before_read = COLD, reading
            cold = asyncio.create_task(runtime.read(log, 0, 400, 5))
            await until(lambda: reading.is_reached)
            disk.faults = DiskFaults()
            writing.open()
            await asyncio.wait([cutting], timeout=0.2)  # It gets as far as it can.
            assert log.active.file.size() == size
            reading.open()
            await asyncio.gather(cutting, cold)
            assert (log.damage, runtime.counters.damage_found) == ([], 0)
            await produce(runtime, log, 3)
            assert len(await values_read(runtime, log)) == 10

    asyncio.run(main())


def test_scrubbing_does_not_go_on_in_a_segment_that_was_cut_in_place() -> None:
    async def main() -> None:
        async with running_log() as (runtime, log):
            await produce(runtime, log, 10)
            segment, file = log.active, log.active.file
            job = CheckJob(segment, 1)
            assert await runtime.check(log, segment, job)
            await runtime.truncate(log, 7)
            assert log.active.file is file, "it was cut in place"
            await produce(runtime, log, 1)
            assert not await runtime.check(log, segment, job)
            assert log.damage == []

    asyncio.run(main())


@pytest.mark.parametrize("path_ending", [".tmp", file_names.CLEANED])
def test_a_full_disk_puts_off_checkpoints_and_compaction(path_ending: str) -> None:
    async def main() -> None:
        files = WatchedFiles(MemoryFiles())
        async with running_log(files, segment_bytes=500, cleanup_policy="compact") as (runtime, log):
            await produce(runtime, log, 30)
            log.advance_high_watermark(30)
            size = log.size

            def refuse(path: str) -> None:
                if path.endswith(path_ending):
                    raise DiskFullError(f"cannot write {path}: no space left on the device")

            files.before_write = refuse
            with pytest.raises(DiskFullError):
                await (runtime.checkpoint() if path_ending == ".tmp" else runtime.compact(log, lambda _: None))

            assert runtime.directory.state.failure is None
            assert (log.running_job, log.cleaned_offset) == (None, 0)

            files.before_write = lambda _: None
            await runtime.checkpoint()
            assert await runtime.compact(log, lambda _: None)
            assert log.size < size
            assert len(await values_read(runtime, log)) < 30

    asyncio.run(main())


@pytest.mark.parametrize("path_ending", [".index", ".timeindex", ".sidecar.tmp"])
def test_a_full_disk_in_the_middle_of_a_swap_ends_the_directory_and_loses_nothing(path_ending: str) -> None:
    async def main() -> None:
        files = WatchedFiles(MemoryFiles())
        settings = log_settings(segment_bytes=500, cleanup_policy="compact")
        async with running_log(files, segment_bytes=500, cleanup_policy="compact") as (runtime, log):
            await produce(runtime, log, 30)
            log.advance_high_watermark(30)

            def refuse(path: str) -> None:
                if path.endswith(path_ending):
                    raise DiskFullError(f"cannot write {path}: no space left on the device")

            files.before_write = refuse
            with pytest.raises(StorageError, match="could not be finished"):
                await runtime.compact(log, lambda _: None)

            files.before_write = lambda _: None
            with pytest.raises(DirectoryFailedError):  # What is half done cannot be put off.
                await produce(runtime, log)

        reopened = opened(files, topic_settings=settings).logs[AT]
        assert (reopened.end_offset, reopened.damage) == (30, [])
        assert not [name for name in files.list(reopened.directory) if name.endswith(file_names.SWAP)]

    asyncio.run(main())


def test_what_was_read_can_be_sent_after_its_segment_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        settings = log_settings(segment_bytes=500)
        directory = opened(OsFiles(), path=str(tmp_path / "data"), topic_settings=settings)
        async with running(directory) as runtime:
            log = await runtime.create(AT, TOPIC_ID, settings)
            await produce(runtime, log, 30)
            log.advance_high_watermark(30)
            expected = b"".join(bytes(view) for view in (await runtime.read(log, 0, 400)).views())
            read = await runtime.read(log, 0, 400)
            log.advance_log_start(20)
            await runtime.expire(log)

            assert b"".join(bytes(view) for view in read.views()) == expected

    asyncio.run(main())


# Partitions come and go


def test_deleting_tells_those_who_wait_and_refuses_those_who_come() -> None:
    async def main() -> None:
        files, barrier = WatchedFiles(MemoryFiles()), WorkerBarrier()
        limits = DirectorySettings(log_unflushed_bytes_max=1)
        async with running_log(files, directory_settings=limits, flush_ms=20) as (runtime, log):
            other = await runtime.create(TopicPartition("other", 0), TOPIC_ID, log_settings())
            files.before_sync = barrier
            for_disk = asyncio.create_task(produce(runtime, log))
            await until(lambda: barrier.is_reached)
            for_room = asyncio.create_task(produce(runtime, log))
            deleting = asyncio.create_task(runtime.delete(AT))
            await asyncio.sleep(0.01)
            late = asyncio.create_task(produce(runtime, log))
            await asyncio.sleep(0.05)

            assert not deleting.done()
            assert files.exists(f"{PATH}/{AT}")
            barrier.open()
            await deleting
            outcomes = await asyncio.gather(for_disk, for_room, late, return_exceptions=True)

            assert [type(outcome) for outcome in outcomes] == [PartitionDeletedError] * 3
            assert not files.exists(f"{PATH}/{AT}")
            assert runtime.directory.state.unflushed_bytes == 0
            await produce(runtime, other)

            gone = (runtime.read(log, 0, 1), runtime.expire(log), runtime.compact(log, lambda _: None))
            for use in (*gone, runtime.truncate(log, 0), runtime.find_timestamp(log, 0), runtime.flushed(log, 1)):
                with pytest.raises(PartitionDeletedError):
                    await use
            assert runtime.directory.state.failure is None

    asyncio.run(main())


def test_a_partition_may_be_created_again_while_its_namesake_is_removed() -> None:
    async def main() -> None:
        files, barrier = WatchedFiles(MemoryFiles()), WorkerBarrier()
        async with running_log(files) as (runtime, log):
            await produce(runtime, log, 3, batch(1, writer=None))
            files.before_sync_directory = lambda path: barrier(path) if path == PATH else None
            deleting = asyncio.create_task(runtime.delete(AT))
            await until(lambda: barrier.is_reached)
            creating = asyncio.create_task(runtime.create(AT, "another", log_settings()))
            await asyncio.sleep(0.02)

            assert not creating.done()
            barrier.open()
            await deleting
            second = await creating
            assert (second.end_offset, runtime.directory.topic_ids[AT]) == (0, "another")
            await produce(runtime, second, 2, batch(1, writer=Writer(4)))
            assert log.end_offset == 3

    asyncio.run(main())


def test_a_deletion_is_carried_through_when_its_caller_goes_away() -> None:
    async def main() -> None:
        files, barrier = WatchedFiles(MemoryFiles()), WorkerBarrier()
        async with running_log(files) as (runtime, log):
            files.before_sync = barrier
            await runtime.append(log, batch(1), 0)
            await until(lambda: barrier.is_reached)
            deleting = asyncio.create_task(runtime.delete(AT))
            await asyncio.sleep(0.01)
            deleting.cancel()
            barrier.open()
            with pytest.raises(asyncio.CancelledError):
                await deleting
            await runtime.checkpoint()
            assert files.list(PATH) == sorted((*checkpoints.FILES, checkpoints.HEADERS, "meta.properties"))

    asyncio.run(main())


def test_deleted_records_stay_deleted_after_a_crash() -> None:
    async def main() -> None:
        disk = SimDisk(8)
        async with running_log(disk, segment_bytes=500) as (runtime, log):
            await produce(runtime, log, 20)
            log.advance_high_watermark(20)

            log.advance_log_start(11)
            await runtime.checkpoint()
            found = opened(disk.crash("drop_all")).logs[AT]
            assert (found.log_start_offset, found.end_offset) == (11, 20)

    asyncio.run(main())


# Closing


def test_closing_waits_for_the_job_under_way() -> None:
    async def main() -> None:
        files, catalogue, barrier = WatchedFiles(MemoryFiles()), MemoryCatalogue(), WorkerBarrier()
        settings = log_settings(segment_bytes=500, cleanup_policy="compact")
        directory = opened(files, catalogue, topic_settings=settings)
        async with running(directory) as runtime:
            log = await runtime.create(AT, TOPIC_ID, settings)
            await produce(runtime, log, 30)
            log.advance_high_watermark(30)
            compacting = asyncio.create_task(runtime.compact(log, lambda _: barrier("")))
            await until(lambda: barrier.is_reached)
            asyncio.get_running_loop().call_later(0.05, barrier.open)
        assert compacting.done()
        assert await compacting

        found = opened(files, catalogue, topic_settings=settings)
        assert found.was_clean
        assert len(found.logs[AT].segments) == len(log.segments)

    asyncio.run(main())


def test_closing_ends_every_worker_and_task() -> None:
    async def main() -> None:
        before = set(threading.enumerate())
        async with running_log(flush_ms=50_000, flush_messages=100) as (runtime, log):
            await runtime.append(log, batch(1), 0)
            await runtime.checkpoint()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert {thread for thread in threading.enumerate() if thread.name.startswith("log-")} <= before

    asyncio.run(main())


def test_a_close_that_fails_is_told_and_ends_the_workers_too() -> None:
    async def main() -> None:
        files = WatchedFiles(MemoryFiles())
        directory = opened(files)
        before = set(threading.enumerate())
        runtime_of = running(directory)
        runtime = await runtime_of.__aenter__()
        log = await runtime.create(AT, TOPIC_ID, log_settings())
        await runtime.append(log, batch(1), 0)
        await runtime.flushed(log, 1)

        def refuse(path: str) -> None:
            raise StorageError(f"cannot sync {path}")

        files.before_sync = refuse
        with pytest.raises(StorageError, match="cannot sync"):
            await runtime.close()
        assert {thread for thread in threading.enumerate() if thread.name.startswith("log-")} <= before
        assert not files.exists(f"{PATH}/.kafka_cleanshutdown")
        files.before_sync = lambda _: None
        assert opened(files).logs[AT].end_offset == 1

    asyncio.run(main())

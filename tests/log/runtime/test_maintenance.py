"""Maintenance: it runs, it is throttled, it yields, and it stops."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.log.batches import FOLDER, NOW, Writer, batch, disk_with, image, log_settings, overwrite
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
from qanat.app.node.compose import Logs, open_log_directory
from qanat.log.atomic_files import read_whole
from qanat.log.directories import checkpoints
from qanat.log.directories.checkpoints import decode_offsets
from qanat.log.partition_log import PartitionLog
from qanat.log.recovery.log_recovery import Checkpoint, open_log
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.runtime.maintenance import Maintenance, Pacer
from qanat.log.segments import file_names
from qanat.log.settings import DirectorySettings
from qanat.model.errors import CorruptLogError, DiskFullError, StorageError
from qanat.model.ids import TopicPartition
from qanat.testing.simulation.disk import SimDisk

OTHER = TopicPartition("z", 0)
BUSY = DirectorySettings(
    log_retention_check_interval_ms=5,
    log_cleaner_backoff_ms=5,
    log_flush_offset_checkpoint_interval_ms=5,
    log_scrub_bytes_per_second=0,
)


@asynccontextmanager
async def kept(
    files: MemoryFiles | WatchedFiles | SimDisk, limits: DirectorySettings = BUSY, **settings: object
) -> AsyncIterator[tuple[LogRuntime, PartitionLog, Maintenance]]:
    """A log with a few segments, looked after."""
    chosen = log_settings(**{"segment_bytes": 500, **settings})
    async with running(opened(files, settings=limits, topic_settings=chosen)) as runtime:
        log = await runtime.create(AT, TOPIC_ID, chosen)
        await produce(runtime, log, 30)
        log.advance_high_watermark(30)
        upkeep = Maintenance(runtime, lambda _: None)
        upkeep.start()
        try:
            yield runtime, log, upkeep
        finally:
            await upkeep.close()


def test_old_segments_go_and_keys_are_compacted_and_checkpoints_written_by_themselves() -> None:
    async def main() -> None:
        files = MemoryFiles()
        async with kept(files, cleanup_policy="compact,delete", min_cleanable_dirty_ratio=0.1) as (runtime, log, _):
            await until(lambda: runtime.counters.compactions > 0)
            other = await runtime.create(OTHER, TOPIC_ID, log_settings(segment_bytes=500, retention_bytes=600))
            await produce(runtime, other, 30)
            other.advance_high_watermark(30)
            await until(lambda: other.log_start_offset > 0)
            await until(lambda: runtime.counters.deleted_segments >= 3)

            def recovery_point() -> int:
                content = read_whole(files, f"{PATH}/{checkpoints.RECOVERY_POINT}")
                return decode_offsets(content).get(OTHER, 0)

            await until(lambda: recovery_point() == 30)
            assert len(await values_read(runtime, log)) < 30

    asyncio.run(main())


def test_silent_producers_are_forgotten() -> None:
    async def main() -> None:
        limits = DirectorySettings(log_retention_check_interval_ms=5, producer_id_expiration_ms=1)
        async with kept(MemoryFiles(), limits) as (runtime, log, _):
            await produce(runtime, log, 1, batch(1, writer=Writer(5)))
            assert 5 in log.producers.states
            runtime.clock_ms = lambda: NOW + 1000
            await until(lambda: 5 not in log.producers.states)

    asyncio.run(main())


def test_counted_are_the_segments_that_went() -> None:
    async def main() -> None:
        async with running_log(segment_bytes=500, retention_ms=1) as (runtime, log):
            await produce(runtime, log, 30)
            log.advance_high_watermark(30)
            segments = len(log.segments)
            runtime.clock_ms = lambda: NOW + 1000
            await runtime.expire(log)  # Rolls the last one too.
            await until(lambda: not log.closed)
            await runtime.expire(log)

            assert runtime.counters.deleted_segments == segments
            assert (log.log_start_offset, log.end_offset) == (30, 30)

    asyncio.run(main())


@pytest.mark.parametrize("damaged", [1, 2])
def test_scrubbing_finds_a_flipped_bit_and_readers_are_told(damaged: int) -> None:
    async def main() -> None:
        disk = SimDisk(1)
        async with kept(disk) as (runtime, log, upkeep):
            for number in range(damaged):
                segment = log.usable(2 * number)
                disk.rot(segment.path(file_names.LOG), 8 * (segment.position_of(segment.base_offset + 1) + 65))

            async with asyncio.timeout(60):
                assert await upkeep.scrub() == damaged
                assert await upkeep.scrub() == 0
            hurt = log.segments[0].base_offset + 1
            assert log.damage[0][2:4] == (hurt, hurt + 1)
            assert runtime.counters.damage_found == damaged
            assert runtime.counters.scrubbed_bytes == 2 * log.size
            with pytest.raises(CorruptLogError, match=f"offsets {hurt} to {hurt + 1}"):
                log.read(hurt, 100)

    asyncio.run(main())


def test_what_rotted_in_the_last_segment_after_a_clean_stop_is_found_and_named() -> None:
    async def main() -> None:
        disk, catalogue = SimDisk(1), MemoryCatalogue()
        chosen = log_settings(segment_bytes=100_000)
        async with running(opened(disk, catalogue, topic_settings=chosen)) as runtime:
            log = await runtime.create(AT, TOPIC_ID, chosen)
            await produce(runtime, log, 30)
            path, position = log.active.path(file_names.LOG), log.active.position_of(17)
        disk.rot(path, 8 * (position + 65))
        async with running(opened(disk, catalogue, settings=BUSY, topic_settings=chosen)) as runtime:
            log, told = runtime.directory.logs[AT], list[tuple[int, int]]()
            assert not log.damage
            runtime.on_damage = lambda _, found: told.extend((one.first_offset, one.next_offset) for one in found)
            assert await Maintenance(runtime, lambda _: None).scrub() == 1
            assert await Maintenance(runtime, lambda _: None).scrub() == 0
            assert told == [(17, 18)]
            with pytest.raises(CorruptLogError, match=r"t-0: offsets 17 to 18 \(exclusive\) are damaged on disk"):
                await runtime.read(log, 17, 100)
            await produce(runtime, log, 1)
            assert len(await values_read(runtime, log, 18)) == 13

    asyncio.run(main())


def test_damage_that_was_found_is_known_after_a_crash_without_reading_anything() -> None:
    async def main() -> None:
        disk = MemoryFiles()
        async with running_log(disk, segment_bytes=400) as (runtime, log):
            await produce(runtime, log, 12)
            upkeep = Maintenance(runtime, lambda _: None)
            overwrite(log, 1, 70, b"\xff\xff")
            assert await upkeep.scrub() == 1
            await upkeep.checkpoint()
            files = disk_with(image(disk, log.directory))
            known = open_log(files, FOLDER, AT, log.settings, Checkpoint()).damage
            assert known == log.damage
            assert log.damage

    asyncio.run(main())


def test_scrubbing_gives_way_to_changes_of_the_log() -> None:
    async def main() -> None:
        files, barrier = WatchedFiles(MemoryFiles()), WorkerBarrier()
        async with kept(files) as (runtime, log, upkeep):
            other = await runtime.create(OTHER, TOPIC_ID, log_settings(segment_bytes=500))
            await produce(runtime, other, 30)
            files.before_read = lambda path: (
                barrier(path) if f"/{AT}/" in path and path.endswith(file_names.LOG) else None
            )
            scrubbing = asyncio.create_task(upkeep.scrub())
            await until(lambda: barrier.is_reached)
            changes = [asyncio.create_task(runtime.delete(OTHER)), asyncio.create_task(runtime.truncate(log, 3))]
            barrier.open()
            await asyncio.gather(*changes)

            assert await scrubbing == 0
            assert runtime.directory.state.failure is None

    asyncio.run(main())


def test_upkeep_survives_partitions_that_are_deleted_under_it() -> None:
    async def main() -> None:
        async with kept(MemoryFiles(), cleanup_policy="compact", min_cleanable_dirty_ratio=0.0) as (runtime, log, _):
            for number in range(30):
                at = TopicPartition("short-lived", number)
                deleted = await runtime.create(at, TOPIC_ID, log.settings)
                await produce(runtime, deleted, 10)
                deleted.advance_high_watermark(10)
                await asyncio.sleep(0.002)
                await runtime.delete(at)

            assert runtime.directory.state.failure is None
            await produce(runtime, log)

    asyncio.run(main())


def test_a_full_disk_does_not_end_upkeep() -> None:
    async def main() -> None:
        files = WatchedFiles(MemoryFiles())
        refusals = 0

        def refuse(path: str) -> None:
            nonlocal refusals
            if path.endswith(".tmp"):
                refusals += 1
                raise DiskFullError(f"cannot write {path}: full")

        async with kept(files) as (runtime, _, _):
            files.before_write = refuse
            await until(lambda: refusals > 3)
            files.before_write = lambda _: None
            files.acts.clear()
            await until(lambda: files.count("rename", checkpoints.CLEANED) > 0)
            assert runtime.directory.state.failure is None

    asyncio.run(main())


def test_upkeep_ends_with_the_directory() -> None:
    async def main() -> None:
        files = WatchedFiles(MemoryFiles())

        def refuse(path: str) -> None:
            raise StorageError(f"cannot sync {path}: input/output error")

        async with kept(files) as (runtime, _, upkeep):
            files.before_sync = refuse
            await until(lambda: runtime.directory.state.failure is not None)
            await until(lambda: all(task.done() for task in upkeep._tasks))

    asyncio.run(main())


def test_closing_during_a_compaction_waits_for_it_and_does_not_dawdle() -> None:
    async def main() -> None:
        files, catalogue = MemoryFiles(), MemoryCatalogue()
        pauses: list[float] = []
        barrier = WorkerBarrier()
        limits = DirectorySettings(log_cleaner_backoff_ms=1, log_cleaner_io_max_bytes_per_second=1)
        settings = log_settings(
            segment_bytes=3 << 20, max_message_bytes=3 << 20, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0
        )
        async with running(opened(files, catalogue, settings=limits, topic_settings=settings)) as runtime:
            log = await runtime.create(AT, TOPIC_ID, settings)
            for _ in range(4):
                await produce(runtime, log, 1, batch([(b"k", b"x" * (2 << 20))]))
            log.advance_high_watermark(4)

            def pause(seconds: float) -> None:
                pauses.append(seconds)
                barrier("")

            upkeep = Maintenance(runtime, pause)
            upkeep.start()
            await until(lambda: barrier.is_reached)
            closing = asyncio.create_task(upkeep.close())
            await asyncio.sleep(0.02)

            assert not closing.done()
            barrier.open()
            await closing
            assert log.running_job is None
            assert log.cleaned_offset == 3
            assert len(pauses) == 1  # Two weeks of them were due.
        assert opened(files, catalogue, topic_settings=settings).was_clean

    asyncio.run(main())


def test_a_bug_in_upkeep_is_not_kept_quiet() -> None:
    async def main() -> None:
        async with running_log() as (runtime, _):
            upkeep = Maintenance(runtime, lambda _: None)

            async def stumble() -> None:
                raise RuntimeError("a bug")

            upkeep._tasks = [asyncio.create_task(upkeep._every(lambda: 1, stumble))]
            await until(lambda: upkeep._tasks[0].done())
            with pytest.raises(RuntimeError, match="a bug"):
                await upkeep.close()

    asyncio.run(main())


def test_nothing_is_left_running_and_nothing_unawaited() -> None:
    async def main() -> None:
        directory = open_log_directory("/data", engine="memory", settings=BUSY)
        async with Logs(directory) as runtime:
            log = await runtime.create(AT, TOPIC_ID, log_settings(segment_bytes=500))
            await produce(runtime, log, 20)
            await asyncio.sleep(0.03)
            assert len(asyncio.all_tasks()) > 3
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main(), debug=True)
        gc.collect()


def test_a_pacer_pauses_for_what_was_done() -> None:
    pauses: list[float] = []
    pacer = Pacer(lambda: 4 << 20, pauses.append)
    for _ in range(16):
        pacer(1 << 18)

    assert sum(pauses) == pytest.approx(1.0)
    pacer.hurry()
    pacer(100 << 20)
    assert sum(pauses) == pytest.approx(1.0)

"""Acknowledged records are on disk; unflushed bytes are bounded, and their waiters fail with the disk."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import threading
from collections.abc import Callable

import pytest
from tests.log.batches import NOW, Writer, batch, log_settings
from tests.log.directories import (
    AT,
    TOPIC_ID,
    WatchedFiles,
    WorkerBarrier,
    opened,
    produce,
    running,
    running_log,
    until,
)

from qanat.adapters.memory_catalogue import MemoryCatalogue
from qanat.adapters.memory_files import MemoryFiles
from qanat.adapters.os_errors import storage_error
from qanat.log.admission import admit
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.fsync_thread import QUICK_RUNS, QUICK_S, FsyncThread
from qanat.log.runtime.group_commit import SOLE_CLIENT_ROUNDS
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.settings import NEVER_MS, DirectorySettings
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import DirectoryFailedError, DiskFullError, StorageError
from qanat.model.ids import TopicPartition
from qanat.testing.simulation.disk import SimDisk
from qanat.testing.simulation.disk_faults import DiskFaults

OTHER = TopicPartition("other", 3)


async def append_many(runtime: LogRuntime, log: PartitionLog, count: int) -> None:
    for _ in range(count):
        await runtime.append(log, batch(1), 0)


def failing(path_ending: str, error: type[StorageError] = StorageError) -> Callable[[str], None]:
    """Refuses each act on such paths."""

    def refuse(path: str) -> None:
        if path.endswith(path_ending):
            raise error(f"cannot sync {path}: input/output error")

    return refuse


def test_an_append_is_not_acknowledged_before_its_sync_is_over() -> None:
    async def main() -> None:
        files, barrier = WatchedFiles(MemoryFiles()), WorkerBarrier()
        async with running_log(files) as (runtime, log):
            files.before_sync = barrier
            appended = await runtime.append(log, batch(2), 0)
            acknowledged = asyncio.create_task(runtime.flushed(log, 2))
            await until(lambda: barrier.is_reached)
            await asyncio.sleep(0.02)

            assert appended.is_flush_due
            assert not acknowledged.done()
            assert log.flushed_offset == 0

            barrier.open()
            await acknowledged

            assert log.flushed_offset == 2

    asyncio.run(main())


def test_c64_what_is_acknowledged_survives_the_worst_power_loss() -> None:
    async def main() -> None:
        disk = SimDisk(1)
        async with running_log(disk, segment_bytes=300) as (runtime, log):
            for number in range(1, 20):
                await runtime.append(log, batch(1), 0)
                await runtime.flushed(log, number)
                image = opened(disk.crash("drop_all"), topic_settings=log.settings)

                assert image.logs[AT].end_offset == number

    asyncio.run(main())


def test_appends_during_a_sync_share_the_next_one() -> None:
    async def main() -> None:
        files, barrier = WatchedFiles(MemoryFiles()), WorkerBarrier()
        async with running_log(files) as (runtime, log):
            files.before_sync = barrier
            syncs = files.count("sync", ".log")

            first = asyncio.create_task(produce(runtime, log))
            await until(lambda: barrier.is_reached)
            others = [asyncio.create_task(produce(runtime, log)) for _ in range(50)]
            await until(lambda: log.end_offset == 51)
            barrier.open()
            await asyncio.gather(first, *others)

            assert files.count("sync", ".log") - syncs == 2

    asyncio.run(main())


def test_unflushed_bytes_are_bounded_and_everybody_gets_through() -> None:
    content = batch([(None, b"x" * 400)])
    bound = 3 * len(content)

    async def main() -> None:
        files, barrier = WatchedFiles(MemoryFiles()), WorkerBarrier()
        limits = DirectorySettings(log_unflushed_bytes_max=bound)
        async with running_log(files, directory_settings=limits) as (runtime, log):
            most = 0

            async def produce_and_look() -> None:
                nonlocal most
                for _ in range(5):
                    appended = await runtime.append(log, content, 0)
                    most = max(most, runtime.directory.state.unflushed_bytes)
                    await runtime.flushed(log, appended.last_offset + 1)

            files.before_sync = barrier
            producers = [asyncio.create_task(produce_and_look()) for _ in range(20)]
            await until(lambda: (barrier.is_reached and not log.is_flushing) or log.end_offset >= 4)
            await asyncio.sleep(0.02)

            assert log.end_offset == 4  # The bound, and the one that went over it.

            barrier.open()
            await asyncio.gather(*producers)

            assert log.flushed_offset == 100
            assert most <= bound + len(content)
            assert runtime.directory.state.unflushed_bytes == 0

    asyncio.run(main())


def test_a_log_that_is_flushed_seldom_makes_room_for_others() -> None:
    async def main() -> None:
        limits = DirectorySettings(log_unflushed_bytes_max=1000)
        async with running_log(directory_settings=limits, flush_messages=1_000_000) as (runtime, log):
            strict = await runtime.create(OTHER, TOPIC_ID, log_settings())
            async with asyncio.timeout(60):
                for _ in range(50):
                    await runtime.append(log, batch(5), 0)
                    await runtime.append(strict, batch(1), 0)
                    await runtime.flushed(strict, strict.end_offset)

                    assert runtime.directory.state.unflushed_bytes <= 1000 + 2 * len(batch(5))

    asyncio.run(main())


def test_who_waits_for_room_asks_the_logs_that_fill_up_meanwhile_too() -> None:
    async def main() -> None:
        files, barrier = WatchedFiles(MemoryFiles()), WorkerBarrier()
        limits = DirectorySettings(log_unflushed_bytes_max=1000)
        async with running_log(files, directory_settings=limits, flush_messages=1_000_000) as (runtime, log):
            late = await runtime.create(OTHER, TOPIC_ID, log.settings)
            while runtime.directory.state.unflushed_bytes <= 1000:
                await runtime.append(log, batch(5), 0)
            files.before_sync = barrier
            waiting = asyncio.create_task(runtime.append(log, batch(1), 0))
            await until(lambda: barrier.is_reached)
            late_log_bytes = 0
            while late_log_bytes <= 1000:
                # As another coroutine that got in before the bound was reached.
                late.append(admit(batch(5), late.settings, NOW, 1 << 20), 0, 0)
                late_log_bytes += len(batch(5))
            files.before_sync = lambda _: None
            barrier.open()
            async with asyncio.timeout(60):
                await waiting

    asyncio.run(main())


def test_bytes_that_are_never_flushed_hold_up_nobody() -> None:
    async def main() -> None:
        limits = DirectorySettings(log_unflushed_bytes_max=1000)
        async with running_log(directory_settings=limits, flush_messages=NEVER_MS) as (runtime, careless):
            strict = await runtime.create(OTHER, TOPIC_ID, log_settings())
            for _ in range(100):
                await runtime.append(careless, batch(5), 0)
            async with asyncio.timeout(60):
                for _ in range(20):
                    await runtime.append(strict, batch(5), 0)
                    await runtime.flushed(strict, strict.end_offset)

            assert careless.flushed_offset == 0

    asyncio.run(main())


def test_without_flushing_appends_never_wait_but_rolled_segments_are_sealed() -> None:
    async def main() -> None:
        files, barrier = WatchedFiles(MemoryFiles()), WorkerBarrier()
        limits = DirectorySettings(log_unflushed_bytes_max=1)
        async with running_log(files, directory_settings=limits, flush_messages=NEVER_MS, segment_bytes=400) as (
            runtime,
            log,
        ):
            files.before_sync = barrier
            for _ in range(30):
                appended = await runtime.append(log, batch(2), 0)
                assert not appended.is_flush_due
            await until(lambda: barrier.is_reached)
            barrier.open()
            await until(lambda: not log.closed)

            assert len(log.segments) > 5
            assert all(segment.is_sealed for segment in log.segments[:-1])

    asyncio.run(main())


def test_flush_messages_counts_records() -> None:
    async def main() -> None:
        files = WatchedFiles(MemoryFiles())
        async with running_log(files, flush_messages=10) as (runtime, log):
            due = [(await runtime.append(log, batch(3), 0)).is_flush_due for _ in range(4)]
            await until(lambda: log.flushed_offset == 12)

            assert due == [False, False, False, True]
            assert log.unflushed_records == 0

    asyncio.run(main())


def test_flush_ms_flushes_what_messages_alone_would_leave() -> None:
    async def main() -> None:
        async with running_log(flush_messages=NEVER_MS, flush_ms=30) as (runtime, log):
            for _ in range(3):
                appended = await runtime.append(log, batch(1), 0)
                assert not appended.is_flush_due

            assert log.flushed_offset == 0
            await until(lambda: log.flushed_offset == 3)

            await runtime.append(log, batch(1), 0)
            await until(lambda: log.flushed_offset == 4)

    asyncio.run(main())


def test_a_retry_of_what_is_on_its_way_waits_for_the_first() -> None:
    async def main() -> None:
        files, barrier = WatchedFiles(MemoryFiles()), WorkerBarrier()
        async with running_log(files) as (runtime, log):
            files.before_sync = barrier
            content = batch(2, writer=Writer(7))
            await runtime.append(log, content, 0)
            retry = await runtime.append(log, content, 0)
            acknowledged = asyncio.create_task(runtime.flushed(log, retry.last_offset + 1))
            await asyncio.sleep(0.02)

            assert retry.is_duplicate
            assert retry.is_flush_due
            assert not acknowledged.done()
            barrier.open()
            await acknowledged

    asyncio.run(main())


def test_a_waiting_appender_can_be_cancelled_without_harm_to_others() -> None:
    content = batch([(None, b"x" * 400)])

    async def main() -> None:
        files, barrier = WatchedFiles(MemoryFiles()), WorkerBarrier()
        limits = DirectorySettings(log_unflushed_bytes_max=len(content))
        async with running_log(files, directory_settings=limits) as (runtime, log):
            files.before_sync = barrier
            producers = [asyncio.create_task(produce(runtime, log, 1, content)) for _ in range(6)]
            await until(lambda: log.end_offset == 2)  # Two wait for the disk, four for room.
            for index in (0, 3):
                producers[index].cancel()
            barrier.open()
            outcomes = await asyncio.gather(*producers, return_exceptions=True)

            assert [isinstance(outcome, asyncio.CancelledError) for outcome in outcomes] == [
                index in (0, 3) for index in range(6)
            ]
            assert log.flushed_offset == log.end_offset == 5

    asyncio.run(main())


def test_waiting_for_records_that_were_cut_off_ends() -> None:
    async def main() -> None:
        async with running_log() as (runtime, log):
            for _ in range(4):
                await runtime.append(log, batch(1), 0)
            await runtime.truncate(log, 2)

            with pytest.raises(StorageError, match="cut off"):
                await asyncio.wait_for(runtime.flushed(log, 4), 60)
            await runtime.append(log, batch(1), 0)
            await runtime.flushed(log, 3)

    asyncio.run(main())


def test_c65_the_first_failed_sync_fails_the_directory_for_good() -> None:
    async def main() -> None:
        files, catalogue, barrier = WatchedFiles(MemoryFiles()), MemoryCatalogue(), WorkerBarrier()
        async with running_log(files, catalogue=catalogue) as (runtime, log):
            other = await runtime.create(OTHER, TOPIC_ID, log_settings())
            tries: list[str] = []

            def fail_once(path: str) -> None:
                tries.append(path)
                barrier(path)
                if len(tries) == 1:
                    raise StorageError(f"cannot sync {path}: input/output error")

            files.before_sync = fail_once
            waiting = [asyncio.create_task(produce(runtime, log)) for log in (log, other, log)]
            await until(lambda: barrier.is_reached)
            barrier.open()
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
            later = await asyncio.gather(produce(runtime, log), produce(runtime, other), return_exceptions=True)

            for outcome in (*outcomes, *later):
                assert isinstance(outcome, DirectoryFailedError)
                assert outcome.code is ErrorCode.KAFKA_STORAGE_ERROR
                assert "input/output error" in str(outcome)
            assert len(tries) == 1
            assert (log.flushed_offset, other.flushed_offset) == (0, 0)
        assert not files.exists("/data/.kafka_cleanshutdown")
        assert not files.count("sync", ".log") > 2  # Those of creation.

        files.before_sync = lambda _: None
        assert not opened(files, catalogue).was_clean  # And the lock is free.

    asyncio.run(main())


def test_a_failed_write_fails_the_directory_and_nothing_is_acknowledged_after_it() -> None:
    async def main() -> None:
        disk = SimDisk(2)
        files, barrier = WatchedFiles(disk), WorkerBarrier()
        async with running_log(files) as (runtime, log):
            other = await runtime.create(OTHER, TOPIC_ID, log_settings())
            files.before_sync = barrier
            waiting = asyncio.create_task(produce(runtime, log))
            await until(lambda: barrier.is_reached)
            disk.fail_next("write", ".log")
            with pytest.raises(StorageError, match="input/output error"):
                await runtime.append(other, batch(1), 0)
            barrier.open()  # The sync of the first succeeds, too late.

            with pytest.raises(DirectoryFailedError):
                await waiting
            with pytest.raises(DirectoryFailedError):
                await runtime.append(log, batch(1), 0)
        assert not disk.exists("/data/.kafka_cleanshutdown")

    asyncio.run(main())


def test_c64_a_failed_sync_of_the_folder_fails_the_directory() -> None:
    async def main() -> None:
        files = WatchedFiles(MemoryFiles())
        async with running_log(files, segment_bytes=200) as (runtime, log):
            files.before_sync_directory = failing("/t-0")
            with pytest.raises(DirectoryFailedError):
                await produce(runtime, log, 5)
            assert log.flushed_offset <= 1

    asyncio.run(main())


def test_a_full_disk_refuses_and_is_used_again_when_there_is_room() -> None:
    async def main() -> None:
        disk = SimDisk(3)
        async with running_log(disk, segment_bytes=100_000) as (runtime, log):
            await produce(runtime, log)
            disk.faults = DiskFaults(capacity_bytes=3_000)
            with pytest.raises(DiskFullError, match="free some space"):
                await produce(runtime, log, 100)
            written = log.end_offset

            assert runtime.directory.state.failure is None
            assert log.flushed_offset == written

            disk.faults = DiskFaults()
            await produce(runtime, log)

            assert log.flushed_offset == written + 1
            image = opened(disk.crash("drop_all"))
            assert image.logs[AT].end_offset == written + 1

    asyncio.run(main())


def test_no_room_to_seal_a_segment_is_told_and_made_good_later() -> None:
    async def main() -> None:
        files = WatchedFiles(MemoryFiles())
        async with running_log(files, segment_bytes=200) as (runtime, log):
            await produce(runtime, log)
            files.before_write = failing(".sidecar.tmp", DiskFullError)
            with pytest.raises(DiskFullError):
                await produce(runtime, log, 5)

            assert runtime.directory.state.failure is None
            assert log.closed

            files.before_write = lambda _: None
            await produce(runtime, log)

            assert not log.closed
            assert log.flushed_offset == log.end_offset
            assert runtime.directory.state.unflushed_bytes == 0

    asyncio.run(main())


def test_who_waits_for_room_is_told_of_a_full_disk() -> None:
    async def main() -> None:
        files = WatchedFiles(MemoryFiles())
        limits = DirectorySettings(log_unflushed_bytes_max=100)
        async with running_log(files, directory_settings=limits, segment_bytes=200, flush_messages=1000) as (
            runtime,
            log,
        ):
            files.before_write = failing(".sidecar.tmp", DiskFullError)
            with pytest.raises(DiskFullError):
                await asyncio.wait_for(append_many(runtime, log, 20), 60)
            files.before_write = lambda _: None

            assert runtime.directory.state.failure is None

    asyncio.run(main())


def test_a_sync_that_finds_no_room_is_as_final_as_any_other() -> None:
    assert isinstance(storage_error("write", "f", OSError(errno.ENOSPC, "full")), DiskFullError)
    assert not isinstance(storage_error("sync", "f", OSError(errno.ENOSPC, "full")), DiskFullError)
    assert not isinstance(storage_error("sync folder", "f", OSError(errno.ENOSPC, "full")), DiskFullError)


def test_nobody_waits_on_after_group_commit_has_died_of_a_bug() -> None:
    async def main() -> None:
        files = WatchedFiles(MemoryFiles())

        def stumble(_: str) -> None:
            raise RuntimeError("a bug")

        directory = opened(files)
        runtime = LogRuntime(directory, lambda: NOW)
        await runtime.start()
        log = await runtime.create(AT, TOPIC_ID, log_settings())
        files.before_sync = stumble
        with pytest.raises(DirectoryFailedError):
            await asyncio.wait_for(produce(runtime, log), 60)
        with pytest.raises(DirectoryFailedError):
            await asyncio.wait_for(produce(runtime, log), 60)
        with pytest.raises(RuntimeError, match="a bug"):
            await runtime.close()
        assert not files.exists("/data/.kafka_cleanshutdown")

    asyncio.run(main())


class Syncs:
    """On which thread each sync was done, and how long the disk takes for one, by a clock of its own."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.takes_s = 0.0
        self.now_s = 0.0
        self.flusher = FsyncThread(lambda: self.now_s)

    def __call__(self, _: str) -> None:
        self.threads.append(threading.current_thread().name)
        self.now_s += self.takes_s


async def ask(runtime: LogRuntime, log: PartitionLog, requests: int = 1, times: int = 1) -> None:
    """The requests of a client that waits for each answer, and of others meanwhile."""
    for _ in range(times):
        runtime.requests_handled += requests
        await produce(runtime, log)


MANY = max(QUICK_RUNS, SOLE_CLIENT_ROUNDS) + 1


def test_the_loop_waits_for_a_quick_disk_where_somebody_has_been_alone_for_long() -> None:
    async def main() -> None:
        files, syncs = WatchedFiles(MemoryFiles()), Syncs()
        async with running_log(files, flusher=syncs.flusher) as (runtime, log):
            files.before_sync = syncs
            here = threading.current_thread().name
            await ask(runtime, log, times=SOLE_CLIENT_ROUNDS)
            assert here not in syncs.threads

            await ask(runtime, log, times=2)
            assert syncs.threads[-1] == here
            assert log.flushed_offset == log.end_offset

            syncs.takes_s = QUICK_S * 2
            await ask(runtime, log)
            assert syncs.threads[-1] == here
            await ask(runtime, log)
            assert syncs.threads[-1] != here, "the disk has just been slow"

    asyncio.run(main())


@pytest.mark.parametrize("others", ["before", "during", "two wait", "another door"])
def test_whoever_is_not_alone_is_left_to_the_thread_for_a_hundred_rounds(others: str) -> None:
    async def main() -> None:
        files, syncs = WatchedFiles(MemoryFiles()), Syncs()
        async with running_log(files, flusher=syncs.flusher) as (runtime, log):

            def serve_another(path: str) -> None:
                syncs(path)
                runtime.requests_handled += 1

            files.before_sync = syncs
            here = threading.current_thread().name
            await ask(runtime, log, times=MANY)
            assert syncs.threads[-1] == here
            if others == "before":
                await ask(runtime, log, requests=2)
            elif others == "during":
                files.before_sync = serve_another
                await ask(runtime, log)
                files.before_sync = syncs
                await ask(runtime, log)
            elif others == "two wait":
                runtime.requests_handled += 1
                await asyncio.gather(produce(runtime, log), produce(runtime, log))
            else:
                await produce(runtime, log)
            assert syncs.threads[-1] != here
            syncs.threads.clear()

            await ask(runtime, log, times=SOLE_CLIENT_ROUNDS)
            assert here not in syncs.threads
            await ask(runtime, log)
            assert syncs.threads[-1] == here

    asyncio.run(main())


def test_more_than_one_sync_is_never_waited_for_on_the_loop() -> None:
    async def main() -> None:
        files, syncs = WatchedFiles(MemoryFiles()), Syncs()
        async with running_log(files, flusher=syncs.flusher, segment_bytes=300) as (runtime, log):
            files.before_sync = syncs
            await ask(runtime, log, times=MANY)
            here, on_loop = threading.current_thread().name, 0
            for _ in range(20):
                syncs.threads.clear()
                await ask(runtime, log)
                assert len(syncs.threads) == 1 or here not in syncs.threads, "a segment is sealed on the way"
                on_loop += syncs.threads == [here]
            assert 0 < on_loop < 20

    asyncio.run(main())


def test_what_is_appended_in_the_turn_of_an_acknowledgement_is_left_to_the_thread() -> None:
    """Or one round on the loop would begin inside another's end, and so on."""

    async def main() -> None:
        files, syncs = WatchedFiles(MemoryFiles()), Syncs()
        async with running_log(files, flusher=syncs.flusher) as (runtime, log):
            files.before_sync = syncs
            here = threading.current_thread().name
            await ask(runtime, log, times=MANY)
            over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def go_on(_: object) -> None:
                runtime.requests_handled += 1
                assert runtime.append_now(log, batch(1), 0) is not None
                second = runtime.when_flushed(log, log.end_offset)
                assert second is not None
                second.add_done_callback(lambda _: over.set_result(None))

            runtime.requests_handled += 1
            assert runtime.append_now(log, batch(1), 0) is not None
            first = runtime.when_flushed(log, log.end_offset)
            assert first is not None
            first.sync_callback = go_on
            await asyncio.wait_for(over, 60)

            assert syncs.threads[-2] == here
            assert syncs.threads[-1] != here

    asyncio.run(main())


def test_a_disk_that_fails_while_the_loop_waits_is_told_of_as_ever() -> None:
    async def main() -> None:
        files, syncs = WatchedFiles(MemoryFiles()), Syncs()
        directory = opened(files)
        runtime = LogRuntime(directory, lambda: NOW, syncs.flusher)
        await runtime.start()
        log = await runtime.create(AT, TOPIC_ID, log_settings())
        await ask(runtime, log, times=MANY)
        flushed = log.flushed_offset

        def fail(path: str) -> None:
            syncs(path)
            failing(".log")(path)

        files.before_sync = fail
        with pytest.raises(DirectoryFailedError, match="input/output error"):
            await asyncio.wait_for(ask(runtime, log), 60)

        assert syncs.threads == [threading.current_thread().name]
        assert log.flushed_offset == flushed
        with contextlib.suppress(StorageError):
            await runtime.close()

    asyncio.run(main())


def test_waiting_is_refused_once_the_directory_is_being_closed() -> None:
    async def main() -> None:
        directory = opened(MemoryFiles())
        async with running(directory) as runtime:
            log = await runtime.create(AT, TOPIC_ID, log_settings())
            runtime._commits.close()
            await runtime.append(log, batch(1), 0)
            with pytest.raises(StorageError, match="being closed"):
                await asyncio.wait_for(runtime.flushed(log, 1), 60)

    asyncio.run(main())

"""Appends that wait: large batches written by a worker, bombs opened by one, and the order of those who wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.log.batches import NOW, Writer, batch
from tests.log.directories import AT, TOPIC_ID, WatchedFiles, WorkerBarrier, running_log, until

from qanat.adapters.memory_files import MemoryFiles
from qanat.log.partition_log import PartitionLog
from qanat.log.retention import begin_retention
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.runtime.waiting_appends import INFLATED_ON_LOOP_BYTES, OPENED_ON_LOOP_BYTES, WRITTEN_ON_LOOP_BYTES
from qanat.log.settings import CleanupPolicy, DirectorySettings
from qanat.model.errors import (
    BatchTooLargeError,
    DirectoryFailedError,
    DiskFullError,
    InvalidRecordError,
    NotLeaderError,
    PartitionDeletedError,
    StorageError,
)
from qanat.model.ids import LeaderEpoch, TopicPartition
from qanat.wire.compression import Codec
from qanat.wire.control import Marker

LARGE = batch([(b"key", bytes(WRITTEN_ON_LOOP_BYTES + 1))])
SMALL = batch(1)
WIDE: dict[str, Any] = {"max_message_bytes": 8 << 20, "segment_bytes": 64 << 20, "retention_ms": 1000}
REAL_CODECS = [codec for codec in Codec if codec is not Codec.NONE]


class HeldWrites:
    """Files whose worker that writes large batches is held up, and may then be refused."""

    def __init__(self) -> None:
        self.files = WatchedFiles(MemoryFiles())
        self.barrier = WorkerBarrier()
        self.fault: StorageError | None = None
        self.files.before_write = self._before_write

    def _before_write(self, path: str) -> None:
        if threading.current_thread().name.startswith("log-write"):
            self.barrier(path)
            if self.fault is not None:
                raise self.fault


@asynccontextmanager
async def writing_large(
    held: HeldWrites, content: bytes = LARGE
) -> AsyncIterator[tuple[LogRuntime, PartitionLog, asyncio.Task[object]]]:
    """A log to which a worker is just writing a large batch."""
    async with running_log(held.files, **WIDE) as (runtime, log):
        await runtime.append(log, SMALL, 0)
        large: asyncio.Task[object] = asyncio.create_task(runtime.append(log, content, 0))
        await until(lambda: held.barrier.is_reached)
        try:
            yield runtime, log, large
        finally:
            held.barrier.open()
            await asyncio.wait([large])


def test_a_large_batch_is_written_by_a_worker_and_in_the_log_only_then() -> None:
    async def main() -> None:
        held = HeldWrites()
        async with writing_large(held) as (runtime, log, large):
            assert (log.end_offset, runtime.append_now(log, LARGE, 0)) == (1, None)
            assert len((await runtime.read(log, 0, 1 << 24)).views()) == 1

            held.barrier.open()
            await large

            assert log.end_offset == 2
            assert (await runtime.read(log, 1, 1 << 24)).size == len(LARGE)

    asyncio.run(main())


def test_whoever_comes_while_a_batch_is_being_written_has_his_place_behind_it() -> None:
    async def main() -> None:
        held = HeldWrites()
        async with writing_large(held) as (runtime, log, _):
            later = [
                asyncio.create_task(runtime.append(log, LARGE if number == 1 else SMALL, 0)) for number in range(4)
            ]
            await asyncio.sleep(0)
            assert runtime.append_now(log, SMALL, 0) is None, "it would get ahead of those who wait"
            later[2].cancel()
            held.barrier.open()
            await asyncio.wait(later)

            assert [one.result().base_offset for one in later if not one.cancelled()] == [2, 3, 4]
            assert (await runtime.append(log, SMALL, 0)).base_offset == 5
            assert runtime.append_now(log, SMALL, 0) is not None

    asyncio.run(main())


def test_other_logs_do_not_wait_for_a_large_batch() -> None:
    async def main() -> None:
        held = HeldWrites()
        async with writing_large(held) as (runtime, log, large):
            other = await runtime.create(TopicPartition("t", 1), TOPIC_ID, log.settings)
            assert runtime.append_now(other, SMALL, 0) is not None
            assert not large.done()

    asyncio.run(main())


def test_a_marker_waits_for_the_batch_before_it() -> None:
    async def main() -> None:
        held = HeldWrites()
        content = batch([(b"k", bytes(WRITTEN_ON_LOOP_BYTES))], writer=Writer(7), is_transactional=True)
        async with writing_large(held, content) as (runtime, log, _):

            async def end() -> None:
                async with runtime.queued(log):
                    runtime.append_marker(log, 7, 0, Marker(True, 0), 0, 0)

            ending = asyncio.create_task(end())
            await asyncio.sleep(0)
            held.barrier.open()
            await ending

            assert (log.end_offset, log.producers.first_unstable_offset(log.end_offset)) == (3, None)

    asyncio.run(main())


def test_a_retry_of_a_large_batch_is_known() -> None:
    async def main() -> None:
        held = HeldWrites()
        content = batch([(b"k", bytes(WRITTEN_ON_LOOP_BYTES))], writer=Writer(7))
        async with writing_large(held, content) as (runtime, log, _):
            retry = asyncio.create_task(runtime.append(log, content, 0))
            held.barrier.open()

            assert ((await retry).base_offset, (await retry).is_duplicate, log.end_offset) == (1, True, 2)

    asyncio.run(main())


def test_a_caller_who_goes_away_leaves_no_half_written_batch() -> None:
    async def main() -> None:
        held = HeldWrites()
        async with writing_large(held) as (_, log, large):
            large.cancel()
            await asyncio.sleep(0)
            assert not large.done()
            held.barrier.open()
            await asyncio.wait([large])

            assert (large.cancelled(), log.end_offset) == (False, 2), "what follows an append must follow"

    asyncio.run(main())


@pytest.mark.parametrize("is_full", [True, False])
def test_a_large_batch_that_cannot_be_written_leaves_the_log_as_it_was(is_full: bool) -> None:
    async def main() -> None:
        held = HeldWrites()
        async with writing_large(held) as (runtime, log, large):
            size = log.size
            held.fault = DiskFullError("no room") if is_full else StorageError("broken")
            held.barrier.open()
            with pytest.raises(type(held.fault)):
                await large

            assert (log.end_offset, log.size, log.active.file.size()) == (1, size, size)
            held.fault = None
            if is_full:
                assert (await runtime.append(log, LARGE, 0)).base_offset == 1
            else:
                with pytest.raises(DirectoryFailedError):
                    await runtime.append(log, SMALL, 0)

    asyncio.run(main())


def test_a_log_that_is_deleted_meanwhile_keeps_its_files_until_the_worker_is_done() -> None:
    async def main() -> None:
        held = HeldWrites()
        async with writing_large(held) as (runtime, log, large):
            deleting = asyncio.create_task(runtime.delete(AT))
            await until(lambda: log.state is not runtime.directory.state)
            assert not deleting.done()
            held.barrier.open()
            with pytest.raises(PartitionDeletedError):
                await large
            await deleting

    asyncio.run(main())


def test_a_leadership_that_ends_meanwhile_takes_the_batch_with_it() -> None:
    async def main() -> None:
        held = HeldWrites()
        async with writing_large(held) as (runtime, log, large):
            log.become_follower(LeaderEpoch(0))
            cutting = asyncio.create_task(runtime.truncate(log, 0))
            await asyncio.sleep(0)
            assert not cutting.done(), "it waits for the worker"
            held.barrier.open()
            with pytest.raises(NotLeaderError):
                await large
            await cutting

            assert (log.end_offset, log.is_appending) == (0, False)

    asyncio.run(main())


def test_a_segment_is_not_closed_under_a_large_batch() -> None:
    async def main() -> None:
        held = HeldWrites()
        async with writing_large(held) as (_, log, large):
            begin_retention(log, NOW + log.settings.retention_ms + 1)
            assert len(log.segments) == 1
            held.barrier.open()
            await large
            begin_retention(log, NOW + log.settings.retention_ms + 1)
            assert len(log.segments) == 2

    asyncio.run(main())


@pytest.mark.parametrize("codec", REAL_CODECS)
@pytest.mark.parametrize("settings", [{"cleanup_policy": CleanupPolicy.COMPACT}, {"compression_type": "uncompressed"}])
def test_a_small_batch_that_inflates_to_much_is_opened_by_a_worker(codec: Codec, settings: dict[str, Any]) -> None:
    async def main() -> None:
        bomb = batch([(b"key", bytes(4 * INFLATED_ON_LOOP_BYTES))], codec=codec)
        assert len(bomb) < OPENED_ON_LOOP_BYTES
        async with running_log(**settings, **WIDE) as (runtime, log):
            assert runtime.append_now(log, bomb, 0) is None
            assert (await runtime.append(log, bomb, 0)).base_offset == 0
            assert runtime.append_now(log, batch(1, codec=codec), 0) is not None, "what stays small is not sent round"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("settings", "is_slow"),
    [
        ({"compression_type": "zstd"}, False),
        ({"compression_type": "zstd", "compression_zstd_level": 9}, False),
        ({"compression_type": "zstd", "compression_zstd_level": 10}, True),
        ({"compression_type": "gzip"}, False),
        ({"compression_type": "gzip", "compression_gzip_level": 9}, True),
        ({"compression_type": "lz4"}, False),
        ({"compression_type": "lz4", "compression_lz4_level": 10}, True),
        ({"compression_type": "snappy", "compression_zstd_level": 22}, False),
        ({"compression_zstd_level": 22}, False),
    ],
)
def test_a_small_batch_is_packed_by_a_worker_where_the_level_is_slow(settings: dict[str, Any], is_slow: bool) -> None:
    async def main() -> None:
        async with running_log(**settings) as (runtime, log):
            assert (runtime.append_now(log, SMALL, 0) is None) is is_slow
            assert (await runtime.append(log, SMALL, 0)).base_offset == (0 if is_slow else 1)

    asyncio.run(main())


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_a_bomb_beyond_all_bounds_is_refused_by_the_worker(codec: Codec) -> None:
    async def main() -> None:
        bomb = batch([(b"key", bytes(4 * INFLATED_ON_LOOP_BYTES))], codec=codec)
        limits = DirectorySettings(log_decompressed_bytes_max=2 * INFLATED_ON_LOOP_BYTES)
        async with running_log(directory_settings=limits, cleanup_policy=CleanupPolicy.COMPACT, **WIDE) as (
            runtime,
            log,
        ):
            with pytest.raises(BatchTooLargeError, match="inflate"):
                await runtime.append(log, bomb, 0)
            with pytest.raises(InvalidRecordError, match="no key"):
                await runtime.append(log, batch([(None, b"value")]), 0)
            assert (log.end_offset, runtime.append_now(log, SMALL, 0) is None) == (0, False)

    asyncio.run(main())

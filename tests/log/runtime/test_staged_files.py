"""Staged files that are uploaded, appended batch by batch, dropped and expired."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.log.batches import LIMIT, NOW, Writer, batch, log_settings
from tests.log.directories import (
    AT,
    PATH,
    TOPIC_ID,
    WatchedFiles,
    WorkerBarrier,
    opened,
    running,
    running_log,
    until,
    values_read,
)

from qanat.adapters.memory_catalogue import MemoryCatalogue
from qanat.adapters.memory_files import MemoryFiles
from qanat.log.files import Files
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.settings import DirectorySettings
from qanat.log.staged_parts import staged_sizes
from qanat.model.errors import (
    CorruptBatchError,
    DiskFullError,
    InvalidRecordError,
    NotIngestedError,
    NotLeaderError,
    OutOfOrderSequenceError,
    StagingFullError,
    StorageError,
)
from qanat.model.ids import LeaderEpoch, TopicPartition
from qanat.wire.records import decode_records, set_producer
from qanat.wire.staged import StagedFile, hide, read_staged, staged_batch
from qanat.wire.staged_upload import DROPPED, read_upload, upload_batch

NAME = "some/0123456789abcdef0123456789abcdef"
OTHER = "some/fedcba9876543210fedcba9876543210"
SETTINGS: dict[str, Any] = {"segment_bytes": 100_000, "flush_messages": 1}


def hidden(batches: Sequence[bytes]) -> bytes:
    """The content of a file of these batches."""
    content = b""
    for one in batches:
        copy = bytearray(one)
        hide(copy)
        content += copy
    return content


async def upload(runtime: LogRuntime, log: PartitionLog, content: bytes, at: int = 0, name: str = NAME) -> int:
    return await runtime.staged.store(log, read_upload(upload_batch(name, at, [content])), 0)


def named(records: int, writer: Writer | None = None, name: str = NAME) -> StagedFile:
    sent = staged_batch(name, records)
    if writer is not None:
        set_producer(sent, writer.producer_id, writer.epoch, writer.sequence, is_transactional=True)
    return read_staged(sent)


def values(*batches: bytes) -> list[bytes | None]:
    return [record.value for one in batches for record in decode_records(one, LIMIT)]


def test_chunks_become_a_file_that_becomes_a_part_of_the_active_segment() -> None:
    async def main() -> None:
        async with running_log(**SETTINGS) as (runtime, log):
            await runtime.append(log, batch(1), 0)
            content = hidden([batch(2), batch(3)])
            assert await upload(runtime, log, content[:50]) == 50
            assert await upload(runtime, log, content[50:], 50) == len(content)
            assert (len(runtime.staged), runtime.staged.bytes, runtime.staged.uploaded_bytes) == (1, 4096, len(content))

            appended, size = await runtime.ingest(log, named(5, Writer(7)), 0)

            assert (appended.base_offset, appended.last_offset, appended.is_flush_due) == (1, 5, True)
            assert (size, len(log.segments)) == (len(content), 1)
            assert await values_read(runtime, log) == values(batch(1), batch(2), batch(3))
            assert (len(runtime.staged), runtime.staged.bytes) == (0, 0)
            assert runtime.directory.files.list(f"{PATH}/staging") == []
            await runtime.flushed(log, 6)
            assert (log.unflushed_bytes, log.state.unflushed_bytes) == (0, 0)
            assert (runtime.counters.appended_records, log.producers.states[7].transaction_first_offset) == (6, 1)

    asyncio.run(main())


def test_a_chunk_that_comes_again_changes_nothing() -> None:
    async def main() -> None:
        async with running_log(**SETTINGS) as (runtime, log):
            content = hidden([batch(2)])
            for at, end in ((0, 40), (0, 40), (0, 60), (20, 60), (40, len(content)), (0, len(content))):
                await upload(runtime, log, content[at:end], at)
            with pytest.raises(InvalidRecordError, match="other bytes"):
                await upload(runtime, log, b"other", 10)
            appended, _ = await runtime.ingest(log, named(2), 0)
            assert (appended.last_offset, await values_read(runtime, log)) == (1, values(batch(2)))

    asyncio.run(main())


def test_a_chunk_without_those_before_it_is_refused() -> None:
    async def main() -> None:
        async with running_log(**SETTINGS) as (runtime, log):
            with pytest.raises(NotIngestedError, match="another one led"):
                await upload(runtime, log, b"late", 10)
            await upload(runtime, log, b"early")
            with pytest.raises(NotIngestedError, match="no byte 10 yet"):
                await upload(runtime, log, b"late", 10)
            assert runtime.staged.bytes == 4096

    asyncio.run(main())


def test_only_the_leader_stores_rows() -> None:
    async def main() -> None:
        async with running_log(**SETTINGS) as (runtime, log):
            log.become_follower(LeaderEpoch(1))
            with pytest.raises(NotLeaderError):
                await upload(runtime, log, b"rows")
            assert not runtime.directory.files.exists(f"{PATH}/staging")

    asyncio.run(main())


def test_no_more_is_stored_than_allowed() -> None:
    async def main() -> None:
        limits = DirectorySettings(log_staging_bytes_max=3 * 4096)
        async with running_log(directory_settings=limits, **SETTINGS) as (runtime, log):
            await upload(runtime, log, bytes(4097))
            await upload(runtime, log, b"x", name=OTHER)
            with pytest.raises(StagingFullError, match=r"log\.staging\.bytes\.max is 12288"):
                await upload(runtime, log, bytes(4096), 4097)
            with pytest.raises(StagingFullError):
                await upload(runtime, log, b"x", name="third/" + "0" * 32)
            assert await upload(runtime, log, bytes(4095), 4097) == 8192
            assert runtime.staged.bytes == 3 * 4096

            await runtime.staged.store(log, read_upload(upload_batch(OTHER, DROPPED)), 0)

            assert runtime.staged.bytes == 2 * 4096
            await upload(runtime, log, b"x", name="third/" + "0" * 32)

    asyncio.run(main())


def test_many_chunks_at_a_time_do_not_exceed_the_limit() -> None:
    async def main() -> None:
        limits = DirectorySettings(log_staging_bytes_max=4 * 4096)
        async with running_log(directory_settings=limits, **SETTINGS) as (runtime, log):
            uploads = [upload(runtime, log, b"x", name=f"some/{number:032x}") for number in range(20)]
            outcomes = await asyncio.gather(*uploads, return_exceptions=True)
            assert sum(isinstance(one, StagingFullError) for one in outcomes) == 16
            assert len(runtime.directory.files.list(f"{PATH}/staging/some")) == len(runtime.staged) == 4

    asyncio.run(main())


def test_a_full_disk_leaves_what_was_there() -> None:
    async def main() -> None:
        files = WatchedFiles(MemoryFiles())
        async with running_log(files, **SETTINGS) as (runtime, log):
            await upload(runtime, log, b"first")

            def fail(path: str) -> None:
                if "staging" in path:
                    raise DiskFullError("no room")

            files.before_write = fail
            for name, at in ((NAME, 5), (OTHER, 0)):
                with pytest.raises(DiskFullError):
                    await upload(runtime, log, b"second", at, name)
            files.before_write = lambda _: None
            assert log.state.failure is None
            assert await upload(runtime, log, b"second", 5) == 11

    asyncio.run(main())


def test_a_file_that_is_being_taken_is_not_written_to() -> None:
    async def main() -> None:
        files, barrier = WatchedFiles(MemoryFiles()), WorkerBarrier()
        async with running_log(files, **SETTINGS) as (runtime, log):
            content = hidden([batch(2)])
            await upload(runtime, log, content)
            files.before_read = lambda path: barrier(path) if path.endswith(NAME) else None
            ingesting = asyncio.create_task(runtime.ingest(log, named(2), 0))
            await until(lambda: barrier.is_reached)
            with pytest.raises(NotIngestedError, match="already"):
                await upload(runtime, log, b"more", len(content))
            barrier.open()
            assert (await ingesting)[0].last_offset == 1

    asyncio.run(main())


def test_a_client_that_goes_away_leaves_its_buffer_to_the_worker() -> None:
    async def main() -> None:
        files, barrier = WatchedFiles(MemoryFiles()), WorkerBarrier()
        async with running_log(files, **SETTINGS) as (runtime, log):
            files.before_write = lambda path: barrier(path) if path.endswith(NAME) else None
            storing = asyncio.create_task(upload(runtime, log, b"rows"))
            await until(lambda: barrier.is_reached)
            storing.cancel()
            await asyncio.sleep(0.01)
            assert not storing.done()
            barrier.open()
            await asyncio.wait([storing])
            assert await upload(runtime, log, b"!", 4) == 5

    asyncio.run(main())


@pytest.mark.parametrize(
    "settings",
    [
        {"cleanup_policy": "compact"},
        {"compression_type": "gzip"},
        {"message_timestamp_type": "LogAppendTime"},
        {"segment_bytes": 250},
        {},
    ],
)
def test_every_log_takes_files_as_it_takes_batches(settings: dict[str, Any]) -> None:
    async def main() -> None:
        async with running_log(**(SETTINGS | settings)) as (runtime, log):
            batches = [batch(2), batch(3), batch(1)]
            await upload(runtime, log, hidden(batches))
            appended, _ = await runtime.ingest(log, named(6, Writer(7)), 0)
            assert (appended.base_offset, appended.last_offset) == (0, 5)
            assert await values_read(runtime, log) == values(*batches)
            again, size = await runtime.ingest(log, named(6, Writer(7)), 0)
            assert (again.base_offset, again.is_duplicate, size) == (0, True, 0)

    asyncio.run(main())


def test_a_log_refuses_of_a_file_what_it_refuses_of_a_client() -> None:
    async def main() -> None:
        async with running_log(**SETTINGS, cleanup_policy="compact") as (runtime, log):
            await upload(runtime, log, hidden([batch(2), batch([(None, b"without a key")])]))
            with pytest.raises(InvalidRecordError):
                await runtime.ingest(log, named(3, Writer(7)), 0)
            assert log.end_offset == 2

    asyncio.run(main())


@pytest.mark.parametrize(
    ("content", "records", "reason"),
    [
        (hidden([batch(2)])[:-1], 2, "holds no batch"),
        (hidden([batch(2)]) + b"rest", 2, "holds no batch"),
        (hidden([batch(2)]), 3, "2 records where 3"),
        (hidden([batch(2)]), 1, "2 records where 1"),
        (b"", 1, "0 records where 1"),
    ],
)
def test_a_file_that_is_not_what_was_announced_changes_nothing(content: bytes, records: int, reason: str) -> None:
    async def main() -> None:
        async with running_log(**SETTINGS) as (runtime, log):
            await upload(runtime, log, content)
            with pytest.raises(CorruptBatchError, match=reason):
                await runtime.ingest(log, named(records), 0)
            assert log.end_offset == 0
            assert runtime.directory.files.exists(f"{PATH}/staging/{NAME}")

    asyncio.run(main())


def test_rows_that_changed_on_the_disk_are_refused() -> None:
    async def main() -> None:
        async with running_log(**SETTINGS) as (runtime, log):
            content = bytearray(hidden([batch(2)]))
            content[-1] ^= 1
            await upload(runtime, log, bytes(content))
            with pytest.raises(CorruptBatchError, match="checksum"):
                await runtime.ingest(log, named(2, Writer(7)), 0)
            assert log.end_offset == 0

    asyncio.run(main())


def test_an_append_that_broke_off_is_continued_by_the_same_request() -> None:
    async def main() -> None:
        files = WatchedFiles(MemoryFiles())
        async with running_log(files, **SETTINGS) as (runtime, log):
            batches = [batch(2), batch(1), batch(4), batch(1)]
            await upload(runtime, log, hidden(batches))
            writes: list[str] = []

            def fill_up(path: str) -> None:
                writes.extend([path] if path.endswith(".log") else [])
                if len(writes) == 3:
                    raise DiskFullError("no room")

            files.before_write = fill_up
            with pytest.raises(DiskFullError):
                await runtime.ingest(log, named(8, Writer(7)), 0)
            assert log.end_offset == 3
            files.before_write = lambda _: None

            appended, _ = await runtime.ingest(log, named(8, Writer(7)), 0)

            assert (appended.base_offset, appended.last_offset, appended.is_duplicate) == (0, 7, False)
            assert await values_read(runtime, log) == values(*batches)
            assert (await runtime.ingest(log, named(8, Writer(7)), 0))[0].is_duplicate

    asyncio.run(main())


def test_a_file_that_overlaps_what_is_there_is_out_of_order() -> None:
    async def main() -> None:
        async with running_log(**SETTINGS) as (runtime, log):
            await runtime.append(log, batch(2, writer=Writer(7), is_transactional=True), 0)
            await upload(runtime, log, hidden([batch(3), batch(1)]))
            with pytest.raises(OutOfOrderSequenceError):
                await runtime.ingest(log, named(4, Writer(7)), 0)
            with pytest.raises(OutOfOrderSequenceError):
                await runtime.ingest(log, named(4, Writer(7, sequence=3)), 0)
            assert log.end_offset == 2
            await runtime.ingest(log, named(4, Writer(7, sequence=2)), 0)
            assert log.end_offset == 6

    asyncio.run(main())


def test_sequence_numbers_go_on_after_the_largest() -> None:
    async def main() -> None:
        async with running_log(**SETTINGS) as (runtime, log):
            await upload(runtime, log, hidden([batch(2), batch(3)]))
            await runtime.ingest(log, named(5, Writer(7, sequence=2**31 - 3)), 0)
            await upload(runtime, log, hidden([batch(1)]), name=OTHER)
            await runtime.ingest(log, named(1, Writer(7, sequence=2), OTHER), 0)
            assert log.end_offset == 6

    asyncio.run(main())


class Clock:
    now_ms = NOW

    def __call__(self) -> int:
        return self.now_ms


def test_files_that_nobody_takes_expire() -> None:
    async def main() -> None:
        clock, limits = Clock(), DirectorySettings(log_staging_retention_ms=100)
        runtime = LogRuntime(opened(MemoryFiles(), settings=limits), clock)
        await runtime.start()
        log = await runtime.create(AT, TOPIC_ID, log_settings())
        await upload(runtime, log, b"old")
        clock.now_ms += 60
        await upload(runtime, log, b"young", name=OTHER)
        clock.now_ms += 40

        await runtime.staged.expire()

        assert runtime.directory.files.list(f"{PATH}/staging/some") == [OTHER.rpartition("/")[2]]
        assert (len(runtime.staged), runtime.staged.bytes, runtime.staged.expired_files) == (1, 4096, 1)
        clock.now_ms += 50
        await upload(runtime, log, b"er", 5, OTHER)
        clock.now_ms += 99
        await runtime.staged.expire()
        assert len(runtime.staged) == 1
        clock.now_ms += 1
        await runtime.staged.expire()
        assert (len(runtime.staged), runtime.staged.bytes) == (0, 0)
        assert runtime.directory.files.list(f"{PATH}/staging") == []
        await runtime.close()

    asyncio.run(main())


def test_what_is_there_at_the_start_counts_and_is_taken() -> None:
    async def main() -> None:
        files, catalogue = MemoryFiles(), MemoryCatalogue()
        async with running(opened(files, catalogue)) as runtime:
            log = await runtime.create(AT, TOPIC_ID, log_settings())
            await upload(runtime, log, hidden([batch(2)]))
        files.make_directory(f"{PATH}/staging/empty")
        files.open(f"{PATH}/staging/odd", create=True).close()
        async with running(opened(files, catalogue)) as runtime:
            log = runtime.directory.logs[AT]
            assert (len(runtime.staged), runtime.staged.bytes) == (1, 4096)
            assert (await runtime.ingest(log, named(2), 0))[0].last_offset == 1
            assert len(runtime.staged) == 0

    asyncio.run(main())


def test_what_happens_while_the_folder_is_read_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        barrier = WorkerBarrier()

        def read_early(files: Files, root: str) -> dict[str, int]:
            found = staged_sizes(files, root)
            barrier(root)
            return found

        async with running_log(**SETTINGS) as (runtime, log):
            await upload(runtime, log, b"rows")
            monkeypatch.setattr("qanat.log.runtime.staged_files.staged_sizes", read_early)
            expiring = asyncio.create_task(runtime.staged.expire())
            await until(lambda: barrier.is_reached)
            await upload(runtime, log, bytes(5000), 4)
            await upload(runtime, log, b"rows", name=OTHER)
            barrier.open()
            await expiring
            assert (len(runtime.staged), runtime.staged.bytes) == (2, 3 * 4096)

    asyncio.run(main())


def test_a_file_that_is_gone_is_forgotten() -> None:
    async def main() -> None:
        async with running_log(**SETTINGS) as (runtime, log):
            await upload(runtime, log, b"rows")
            runtime.directory.files.remove(f"{PATH}/staging/{NAME}")
            await runtime.staged.expire()
            assert (len(runtime.staged), runtime.staged.bytes) == (0, 0)
            with pytest.raises(NotIngestedError, match="no staged file"):
                await runtime.ingest(log, named(2), 0)

    asyncio.run(main())


def test_a_file_that_cannot_be_deleted_is_in_the_log_all_the_same() -> None:
    async def main() -> None:
        files = WatchedFiles(MemoryFiles())
        async with running_log(files, **SETTINGS) as (runtime, log):
            await upload(runtime, log, hidden([batch(2)]))

            def refuse(path: str) -> None:
                raise StorageError(path)

            remove, files.remove = files.remove, refuse  # type: ignore[method-assign]
            assert (await runtime.ingest(log, named(2), 0))[0].last_offset == 1
            assert len(runtime.staged) == 1
            files.remove = remove  # type: ignore[method-assign]

    asyncio.run(main())


def test_others_append_behind_a_file_and_a_file_behind_others() -> None:
    async def main() -> None:
        async with running_log(**SETTINGS) as (runtime, log):
            other = await runtime.create(TopicPartition("t", 1), TOPIC_ID, log.settings)
            await upload(runtime, log, hidden([batch([(b"k", b"%d" % number)]) for number in range(20)]))
            await asyncio.gather(
                runtime.append(log, batch([(b"k", b"before")]), 0),
                runtime.ingest(log, named(20), 0),
                runtime.append(log, batch([(b"k", b"behind")]), 0),
                runtime.append(other, batch(1), 0),
            )
            found = await values_read(runtime, log)
            assert found == [b"before", *(b"%d" % number for number in range(20)), b"behind"]

    asyncio.run(main())

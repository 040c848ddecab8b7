"""Nothing that waits for the disk happens on the event loop, whatever is asked of a log that is not in memory.

The files (`tests.log.cold_files`) note when the loop waits, and show rubbish where a page is touched that is not in
memory: every answer below is right only if somebody has read it in before, on another thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest
from tests.log.batches import NOW, Writer, append, batch, batches_in, log_settings, overwrite
from tests.log.cold_files import ColdFiles
from tests.log.directories import AT, TOPIC_ID, opened, produce, running, values_read

from qanat.adapters.memory_catalogue import MemoryCatalogue
from qanat.adapters.memory_files import MemoryFiles
from qanat.log.atomic_files import write_volatile
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.segments import file_names
from qanat.log.segments.batch_scan import Damage
from qanat.log.timestamp_lookup import TimestampedOffset
from qanat.model.errors import CorruptLogError, DiskFullError
from qanat.wire.batch_header import batch_crc, read_header

COUNT = 40
TABLES = (file_names.OFFSET_INDEX, file_names.TIME_INDEX, file_names.ABORTED_INDEX)
Result = TypeVar("Result")


def one(number: int) -> bytes:
    return batch([(b"key-%d" % (number % 5), b"value-%d" % number)], timestamps=NOW + 10 * number)


def value(number: int) -> bytes:
    return b"value-%d" % number


@asynccontextmanager
async def cold_log(
    files: ColdFiles | None = None, *, lost: Sequence[str] = (), **settings: object
) -> AsyncIterator[tuple[ColdFiles, LogRuntime, PartitionLog]]:
    """A log of forty records in many segments, as a new process finds it; nothing of it is in memory.

    In the end the loop must not have waited for the disk.
    """
    files = files or ColdFiles(MemoryFiles())
    catalogue, chosen = MemoryCatalogue(), log_settings(**{"segment_bytes": 500, **settings})
    async with running(opened(files, catalogue, topic_settings=chosen)) as runtime:
        log = await runtime.create(AT, TOPIC_ID, chosen)
        for number in range(COUNT):
            await produce(runtime, log, 1, one(number))
        log.advance_high_watermark(log.end_offset)
        for segment in log.segments[:-1]:
            for suffix in lost:
                files.remove(segment.path(suffix))
    async with running(opened(files, catalogue, topic_settings=chosen)) as runtime:
        log = runtime.directory.logs[AT]
        files.watch()
        yield files, runtime, log
        files.loop_thread = 0
    assert files.waits == []


def at_once(work: Coroutine[None, None, Result]) -> Result:
    """What a coroutine returns without waiting for anything."""
    try:
        work.send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    work.close()
    raise AssertionError("it waited")


def test_the_files_notice_a_loop_that_waits() -> None:
    async def main() -> None:
        async with cold_log() as (files, _, log):
            assert bytes(log.active.view()[:4]) == b"\xee" * 4
            log.usable(0)
            assert {wait.split()[0] for wait in files.waits} == {"exists", "open", "read"}
            files.waits.clear()

    asyncio.run(main())


@pytest.mark.parametrize("lost", [(), (file_names.OFFSET_INDEX,), TABLES, (*TABLES, file_names.SNAPSHOT)])
@pytest.mark.parametrize("offset", [0, 1, 17, COUNT - 1])
def test_a_fetch(offset: int, lost: Sequence[str]) -> None:
    async def main() -> None:
        async with cold_log(lost=lost) as (files, runtime, log):
            assert await values_read(runtime, log, offset) == [value(number) for number in range(offset, COUNT)]
            files.chill()
            assert await values_read(runtime, log, offset) == [value(number) for number in range(offset, COUNT)]
            at_once(runtime.read(log, offset, 100))  # In memory now.

    asyncio.run(main())


def test_lost_tables_are_rebuilt_for_good() -> None:
    async def main() -> None:
        async with cold_log(lost=TABLES) as (files, runtime, log):
            await values_read(runtime, log)
            assert all(segment.tables.is_checked for segment in log.segments)
        for segment in log.segments[:-1]:
            assert files.exists(segment.path(file_names.OFFSET_INDEX))

    asyncio.run(main())


def test_tables_without_room_on_the_disk_are_kept_in_memory() -> None:
    class Full(ColdFiles):
        is_full = False

        def open(self, path: str, *, create: bool = False):  # type: ignore[no-untyped-def]
            if create and self.is_full:
                raise DiskFullError(f"{path}: no space left on device")
            return super().open(path, create=create)

    async def main() -> None:
        files = Full(MemoryFiles())
        async with cold_log(files, lost=TABLES) as (_, runtime, log):
            files.is_full = True
            assert await values_read(runtime, log, 3) == [value(number) for number in range(3, COUNT)]
            assert runtime.directory.state.failure is None
            files.is_full = False

    asyncio.run(main())


def test_a_batch_larger_than_what_was_asked_for() -> None:
    async def main() -> None:
        large = batch([(b"k", b"v" * 3000)])
        async with cold_log(segment_bytes=4000) as (files, runtime, log):
            await produce(runtime, log, 1, large)
            files.chill()
            read = await runtime.read(log, COUNT, 100)
            (view,) = read.views()
            header = read_header(view)
            assert (header.base_offset, header.size, header.crc) == (COUNT, len(large), batch_crc(view))

    asyncio.run(main())


@pytest.mark.parametrize("end_offset", [1, 20, COUNT - 1])
def test_a_bound_far_from_what_is_read(end_offset: int) -> None:
    async def main() -> None:
        async with cold_log(segment_bytes=100_000) as (_, runtime, log):
            read = await runtime.read(log, 0, 250, end_offset)
            offsets = [header.base_offset for view in read.views() for header, _ in batches_in(view)]
            assert offsets == list(range(min(3, end_offset)))

    asyncio.run(main())


@pytest.mark.parametrize("lost", [(), TABLES])
def test_a_look_up_by_time(lost: Sequence[str]) -> None:
    async def main() -> None:
        async with cold_log(lost=lost) as (files, runtime, log):
            for number in (0, 7, COUNT - 1):
                files.chill()
                found = await runtime.find_timestamp(log, NOW + 10 * number - 5)
                assert found == TimestampedOffset(NOW + 10 * number, number)
            files.chill()
            assert await runtime.find_timestamp(log, NOW + 10_000) is None

    asyncio.run(main())


def test_a_look_up_by_time_does_not_wait_where_everything_is_in_memory() -> None:
    async def main() -> None:
        async with cold_log() as (_, runtime, log):
            await values_read(runtime, log)
            for number in range(COUNT):
                found = at_once(runtime.find_timestamp(log, NOW + 10 * number - 5))
                assert found == TimestampedOffset(NOW + 10 * number, number)

    asyncio.run(main())


def test_a_look_up_by_time_passes_damage_over_and_names_it() -> None:
    async def main() -> None:
        async with cold_log() as (files, runtime, log):
            told: list[Damage] = []
            runtime.on_damage = lambda _, found: told.extend(found)
            segment = log.segment_at(9)
            with files.unwatched():
                overwrite(log, log.segments.index(segment), (9 - segment.base_offset) * len(one(9)) + 70, b"\xff")
            files.chill()
            for _ in range(2):
                assert await runtime.find_timestamp(log, NOW + 85) == TimestampedOffset(NOW + 100, 10)
            assert [(damage.first_offset, damage.next_offset) for damage in told] == [(9, 10)]

    asyncio.run(main())


@pytest.mark.parametrize("lost", [(), TABLES])
def test_a_compaction(lost: Sequence[str]) -> None:
    async def main() -> None:
        async with cold_log(lost=lost, cleanup_policy="compact") as (_, runtime, log):
            assert await runtime.compact(log, lambda _: None)
            kept = await values_read(runtime, log)
            assert kept[-5:] == [value(number) for number in range(COUNT - 5, COUNT)]
            assert len(kept) < COUNT

    asyncio.run(main())


@pytest.mark.parametrize("lost", [(), TABLES])
@pytest.mark.parametrize("end_offset", [0, 1, 18, COUNT - 1])
def test_a_truncation(end_offset: int, lost: Sequence[str]) -> None:
    async def main() -> None:
        async with cold_log(lost=lost) as (_, runtime, log):
            await runtime.truncate(log, end_offset)
            assert await values_read(runtime, log) == [value(number) for number in range(end_offset)]

    asyncio.run(main())


def test_deleting_records_and_expiring_segments() -> None:
    async def main() -> None:
        async with cold_log() as (_, runtime, log):
            log.advance_log_start(17)
            await runtime.expire(log)
            assert 0 < log.segments[0].base_offset <= 17
            assert await values_read(runtime, log, 17) == [value(number) for number in range(17, COUNT)]

    asyncio.run(main())


def test_rolling_a_segment() -> None:
    async def main() -> None:
        async with cold_log() as (files, runtime, log):
            before = len(log.segments)
            for number in range(COUNT, COUNT + 10):
                files.chill()
                await produce(runtime, log, 1, one(number))
            assert len(log.segments) > before + 1
            files.chill()
            assert await values_read(runtime, log, 30) == [value(number) for number in range(30, COUNT + 10)]

    asyncio.run(main())


@pytest.mark.parametrize("lost", [(), TABLES])
def test_naming_aborted_transactions(lost: Sequence[str]) -> None:
    async def main() -> None:
        files, catalogue, chosen = ColdFiles(MemoryFiles()), MemoryCatalogue(), log_settings(segment_bytes=500)
        async with running(opened(files, catalogue, topic_settings=chosen)) as runtime:
            log = await runtime.create(AT, TOPIC_ID, chosen)
            for sequence in range(4):
                append(log, batch(writer=Writer(7, 0, sequence), is_transactional=True))
                await produce(runtime, log, 8)
                log.append_marker(7, 0, 0, 0, NOW, is_commit=False)
            await produce(runtime, log, 8)
            for segment in log.segments[:-1]:
                for suffix in lost:
                    files.remove(segment.path(suffix))
            expected = log.aborted_transactions(0, log.end_offset) if not lost else None
        async with running(opened(files, catalogue, topic_settings=chosen)) as runtime:
            log = runtime.directory.logs[AT]
            files.watch()
            await runtime.load_aborted(log, 0, log.end_offset)
            found = log.aborted_transactions(0, log.end_offset)
            assert [entry.first_offset for entry in found] == [0, 10, 20, 30]
            assert expected in (None, found)
            files.loop_thread = 0
        assert files.waits == []

    asyncio.run(main())


def test_damage_that_leads_a_read_astray_is_located_beside_the_loop() -> None:
    """The bytes are in memory, so that their checksums are unverified, and there is no header among them."""

    async def main() -> None:
        async with cold_log() as (files, runtime, log):
            told: list[Damage] = []
            runtime.on_damage = lambda _, found: told.extend(found)
            await values_read(runtime, log)
            segment = log.segment_at(10)
            with files.unwatched():
                overwrite(log, log.segments.index(segment), segment.position_of(10) + 8, b"\xff" * 9)
            for _ in range(2):
                with pytest.raises(CorruptLogError, match=r"t-0: offsets 10 to 11 \(exclusive\) are damaged"):
                    await runtime.read(log, 10, 300)
            assert await values_read(runtime, log, 11) == [value(number) for number in range(11, COUNT)]
            assert [(damage.first_offset, damage.next_offset) for damage in told] == [(10, 11)]

    asyncio.run(main())


def test_tables_that_rot_while_nobody_has_opened_them() -> None:
    async def main() -> None:
        async with cold_log() as (files, runtime, log):
            write_volatile(files.files, log.segments[2].path(file_names.OFFSET_INDEX), b"\xff" * 64)
            assert await values_read(runtime, log) == [value(number) for number in range(COUNT)]

    asyncio.run(main())

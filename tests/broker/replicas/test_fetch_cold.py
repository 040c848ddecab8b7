"""What a fetch leaves on disk when it reads at once, and when it says that it must wait for the disk."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.broker.replicas.test_fetch_reads import ONE, SIZE, fetch_of, wanted
from tests.broker.test_partition import led
from tests.log.batches import Writer, batch, log_settings
from tests.log.cold_files import ColdFiles
from tests.log.directories import TOPIC_ID, opened, running, until

from qanat.adapters.memory_catalogue import MemoryCatalogue
from qanat.adapters.memory_files import MemoryFiles
from qanat.broker.replicas.fetch import Fetch
from qanat.broker.replicas.partition import EndMarker, Partition
from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.model.ids import TopicPartition

RECORDS = 8
ABORTED, OPEN = 7, 8


@asynccontextmanager
async def cold_partitions(count: int) -> AsyncIterator[list[Partition]]:
    """Partitions of many segments as a new process finds them: nothing is in memory, and the loop must not wait.

    An aborted transaction begins at offset 0 and ends segments later. Behind everything, at offset `RECORDS`, is the
    beginning of a transaction that is still open, and after it another one that was aborted.
    """
    files, catalogue = ColdFiles(MemoryFiles()), MemoryCatalogue()
    chosen = log_settings(segment_bytes=2 * SIZE + 20, flush_messages=1)
    places = [TopicPartition("t", number) for number in range(count)]
    async with running(opened(files, catalogue, topic_settings=chosen)) as runtime:
        for at in places:
            await _fill(led(runtime, await runtime.create(at, TOPIC_ID, chosen), has_sole_client=True))
    async with running(opened(files, catalogue, topic_settings=chosen)) as runtime:
        found = [led(runtime, runtime.directory.logs[at], has_sole_client=True) for at in places]
        files.watch()
        yield found
        files.loop_thread = 0
    assert files.waits == []


async def _fill(partition: Partition) -> None:
    partition.append_own(batch(1, writer=Writer(ABORTED), is_transactional=True))
    for _ in range(RECORDS - 2):
        partition.append_own(ONE)
    partition.append_marker(EndMarker(ABORTED, 0, 0, is_commit=False))
    assert partition.log.end_offset == RECORDS
    partition.append_own(batch(1, writer=Writer(OPEN), is_transactional=True))
    partition.append_own(batch(1, writer=Writer(ABORTED, sequence=1), is_transactional=True))
    for _ in range(RECORDS):
        partition.append_own(ONE)
    partition.append_marker(EndMarker(ABORTED, 0, 0, is_commit=False))
    for _ in range(RECORDS):
        partition.append_own(ONE)
    await until(lambda: partition.log.high_watermark == partition.log.end_offset)


async def warm_up(partition: Partition) -> int:
    """Have the first batch in memory, and nothing of later segments; returns its size."""
    fetch = fetch_of(wanted(partition, max_bytes=1))
    assert not fetch.try_now()
    await fetch.read_in_turns(CooperativeYield())
    assert is_warm(partition)
    return fetch.size


def is_warm(partition: Partition, offset: int = 0) -> bool:
    """Whether the batch at an offset is in memory."""
    return fetch_of(wanted(partition, offset, max_bytes=1)).try_now()


def aborted_in(fetch: Fetch) -> list[list[int]]:
    return [[one.producer_id for one in found.aborted or ()] for found in fetch.found]


async def test_records_in_memory_wait_for_the_aborted_transactions_on_disk_if_only_committed_ones_are_wanted() -> None:
    async with cold_partitions(1) as (partition,):
        size = await warm_up(partition)
        row = wanted(partition, max_bytes=1)
        committed, uncommitted = fetch_of(row, is_committed=True), fetch_of(row)

        assert uncommitted.try_now()
        assert uncommitted.size == size
        assert not committed.try_now()
        assert committed.is_cold
        assert committed.size == 0
        await committed.read_in_turns(CooperativeYield())
        assert committed.size == size
        assert aborted_in(committed) == [[ABORTED]]
        assert committed.try_now()
        assert aborted_in(committed) == [[ABORTED]], "it is in memory now"


async def test_a_read_without_records_needs_no_aborted_transactions() -> None:
    async with cold_partitions(1) as (partition,):
        assert partition.log.last_stable_offset == RECORDS
        fetch = fetch_of(wanted(partition, RECORDS), is_committed=True)

        assert not partition.has_aborted_in_memory(RECORDS, RECORDS)
        assert fetch.try_now()
        assert (fetch.size, aborted_in(fetch)) == (0, [[]])


async def test_a_full_response_does_not_wait_for_the_disk() -> None:
    async with cold_partitions(2) as (first, second):
        size = await warm_up(first)
        rows = wanted(first, max_bytes=1), wanted(second)

        for max_bytes in (size, size - 1):
            fetch = fetch_of(*rows, max_bytes=max_bytes)
            assert fetch.try_now()
            assert [found.size for found in fetch.found] == [size, 0]
        fetch = fetch_of(*rows, max_bytes=size + 1)
        assert not fetch.try_now(), "there is room for more"


async def test_a_full_response_reads_nothing_more_from_the_disk() -> None:
    async with cold_partitions(2) as (first, second):
        fetch = fetch_of(wanted(first), wanted(second), max_bytes=1)
        await fetch.read_in_turns(CooperativeYield())

        assert fetch.size > 0
        assert is_warm(first)
        assert not is_warm(second)


async def test_a_partition_on_disk_counts_even_if_others_fill_the_response() -> None:
    async with cold_partitions(3) as (first, second, third):
        size = await warm_up(second)
        rows = wanted(first), wanted(second, max_bytes=1), wanted(third)
        fetch = fetch_of(*rows, max_bytes=size)

        assert not fetch.try_now()
        assert [found.size for found in fetch.found] == [0, size, 0]

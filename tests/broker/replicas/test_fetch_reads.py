"""What one fetch reads of several partitions, what it answers for each, and when a wait for more is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.broker.test_partition import OTHER, led
from tests.log.batches import Writer, batch, log_settings
from tests.log.cold_files import ColdFiles
from tests.log.directories import TOPIC_ID, opened, running, until

from qanat.adapters.memory_catalogue import MemoryCatalogue
from qanat.adapters.memory_files import MemoryFiles
from qanat.broker.replicas.fetch import FEW_PARTITIONS, Fetch, Found, Wanted
from qanat.broker.replicas.partition import EndMarker, Partition
from qanat.broker.replicas.replica_selector import NO_REPLICA
from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.log.settings import NEVER_MS
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition

MANY = 1024 * 1024
ONE = batch(1)
SIZE = len(ONE)
EPOCH = 3


@asynccontextmanager
async def partitions(count: int, *, is_sole: bool = True) -> AsyncIterator[list[Partition]]:
    """Partitions whose records can be read once they are written; where others follow, once they have them."""
    chosen = log_settings(flush_messages=NEVER_MS, flush_ms=NEVER_MS)
    async with running(opened(MemoryFiles(), topic_settings=chosen)) as runtime:
        logs = [await runtime.create(TopicPartition("t", number), TOPIC_ID, chosen) for number in range(count)]
        yield [led(runtime, log, has_sole_client=is_sole) for log in logs]


def wanted(partition: Partition | ErrorCode, offset: int = 0, max_bytes: int = MANY, epoch: int = EPOCH) -> Wanted:
    return Wanted(partition, offset, max_bytes, epoch)


def fetch_of(*rows: Wanted, max_bytes: int = MANY, min_bytes: int = 1, is_committed: bool = False) -> Fetch:
    return Fetch(rows, max_bytes, min_bytes, is_committed=is_committed)


def follower_fetch(row: Wanted, min_bytes: int = 1) -> Fetch:
    return Fetch([row], MANY, min_bytes, is_committed=False, is_follower=True)


async def sizes(fetch: Fetch) -> list[int]:
    """The bytes found in each partition: the same, whether they are read at once or in turns."""
    assert fetch.try_now()
    at_once, size = [found.size for found in fetch.found], fetch.size
    await fetch.read_in_turns(CooperativeYield())
    assert [found.size for found in fetch.found] == at_once
    assert fetch.size == size == sum(at_once)
    return at_once


async def answer(fetch: Fetch) -> Found:
    """The response of the first partition: the same, whether it is read at once or in turns."""
    assert fetch.try_now()
    (at_once, *_) = fetch.found
    await fetch.read_in_turns(CooperativeYield())
    (found, *_) = fetch.found
    assert found == at_once
    return found


@pytest.mark.parametrize(
    ("max_bytes", "found"),
    [
        (3 * SIZE, [SIZE, SIZE, SIZE]),
        (3 * SIZE - 1, [SIZE, SIZE, 0]),
        (SIZE + 1, [SIZE, 0, 0]),
        (SIZE, [SIZE, 0, 0]),
        (1, [SIZE, 0, 0]),
        (0, [SIZE, 0, 0]),
    ],
)
async def test_a_response_is_filled_in_order_up_to_its_limit_and_has_at_least_one_batch(
    max_bytes: int, found: list[int]
) -> None:
    async with partitions(3) as all_of:
        for partition in all_of:
            partition.append_own(ONE)

        assert await sizes(fetch_of(*map(wanted, all_of), max_bytes=max_bytes)) == found


async def test_the_limit_of_a_partition_counts_and_what_does_not_fit_leaves_room_for_the_next() -> None:
    async with partitions(2) as (first, second):
        for _ in range(3):
            first.append_own(ONE)
        second.append_own(ONE)
        rows = wanted(first, max_bytes=2 * SIZE), wanted(second)

        assert await sizes(fetch_of(*rows)) == [2 * SIZE, SIZE]
        assert await sizes(fetch_of(wanted(first, 1, 0), *rows[1:])) == [SIZE, SIZE]


@pytest.mark.parametrize(("epoch", "error"), [(2, "FENCED_LEADER_EPOCH"), (4, "UNKNOWN_LEADER_EPOCH")])
async def test_a_client_of_another_leader_epoch_gets_an_error(epoch: int, error: str) -> None:
    async with partitions(1) as (partition,):
        fetch = fetch_of(wanted(partition, epoch=epoch))

        assert (await answer(fetch)).error is ErrorCode[error]
        assert fetch.is_enough, "an error is sent at once"


async def test_the_answer_of_a_partition_has_its_bounds_and_errors_have_no_records() -> None:
    async with partitions(2) as (partition, retired):
        partition.append_own(batch(3))
        partition.log.log_start_offset = 1
        retired.retire(ErrorCode.NOT_LEADER_OR_FOLLOWER)

        found = await answer(fetch_of(wanted(partition, 2, epoch=-1)))
        assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (3, 3, 1)
        assert found.read is not None
        assert found.aborted is None
        assert (await answer(fetch_of(wanted(ErrorCode.UNKNOWN_TOPIC_ID)))) == Found(
            ErrorCode.UNKNOWN_TOPIC_ID, aborted=()
        )
        assert await answer(fetch_of(wanted(retired))) == Found(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for offset in (0, 4):
            assert await answer(fetch_of(wanted(partition, offset))) == Found(ErrorCode.OFFSET_OUT_OF_RANGE)
            assert await answer(follower_fetch(wanted(partition, offset))) == Found(
                ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=1
            ), "a follower learns where to begin"


async def test_consumers_read_what_is_committed_and_followers_all() -> None:
    async with partitions(1, is_sole=False) as (partition,):
        partition.append_own(ONE)
        partition.append_own(ONE)
        assert partition.leader is not None
        partition.leader.note_fetch(OTHER, 1, 1, 2, 0)
        partition.advance()

        assert await sizes(fetch_of(wanted(partition))) == [SIZE]
        assert await sizes(fetch_of(wanted(partition, 1))) == [0]
        assert await sizes(follower_fetch(wanted(partition))) == [2 * SIZE]
        assert await sizes(follower_fetch(wanted(partition)._replace(is_throttled=True))) == [0]


async def test_a_consumer_of_committed_records_reads_up_to_the_last_stable_offset_with_what_was_aborted() -> None:
    async with partitions(1) as (partition,):
        partition.append_own(batch(1, writer=Writer(7), is_transactional=True))
        partition.append_marker(EndMarker(7, 0, 0, is_commit=False))
        partition.append_own(batch(1, writer=Writer(8), is_transactional=True))
        assert partition.log.last_stable_offset == 2

        found = await answer(fetch_of(wanted(partition), is_committed=True))
        assert found.read is not None
        assert found.read.next_offset == 2
        assert [one.producer_id for one in found.aborted or ()] == [7]
        nothing = await answer(fetch_of(wanted(partition, 2), is_committed=True))
        assert (nothing.size, nothing.aborted) == (0, ())
        assert (await answer(fetch_of(wanted(partition)))).aborted is None


async def test_a_consumer_learns_at_once_which_replica_to_fetch_from() -> None:
    async with partitions(1) as (partition,):
        partition.append_own(ONE)
        fetch = fetch_of(wanted(partition)._replace(preferred=0))
        found = await answer(fetch)

        assert (found.preferred, found.read) == (0, None)
        assert fetch.is_enough
        fetch = fetch_of(wanted(partition), min_bytes=SIZE + 1)
        assert (await answer(fetch)).preferred == NO_REPLICA
        assert not fetch.is_enough


@pytest.mark.parametrize(("known", "is_enough"), [(0, True), (1, False), (None, False)])
async def test_a_follower_learns_of_a_higher_high_watermark_at_once(known: int | None, is_enough: bool) -> None:
    async with partitions(1) as (partition,):
        partition.append_own(ONE)
        fetch = follower_fetch(wanted(partition, 1)._replace(known_high_watermark=known))
        fetch.try_now()

        assert fetch.is_enough is is_enough


async def test_a_fetch_of_many_partitions_is_long() -> None:
    async with partitions(1) as (partition,):
        assert not fetch_of(*[wanted(partition)] * FEW_PARTITIONS).is_long
        assert fetch_of(*[wanted(partition)] * (FEW_PARTITIONS + 1)).is_long


async def test_what_is_not_in_memory_is_read_in_turns() -> None:
    files, catalogue = ColdFiles(MemoryFiles()), MemoryCatalogue()
    chosen = log_settings(segment_bytes=2 * SIZE + 20, flush_messages=1)
    at = TopicPartition("t", 0)
    async with running(opened(files, catalogue, topic_settings=chosen)) as runtime:
        partition = led(runtime, await runtime.create(at, TOPIC_ID, chosen), has_sole_client=True)
        partition.append_own(batch(1, writer=Writer(7), is_transactional=True))
        for number in range(7):
            partition.append_own(ONE)
            if number == 4:
                partition.append_marker(EndMarker(7, 0, 0, is_commit=False))  # Segments behind the records.
        await until(lambda: partition.log.high_watermark == 9)
    async with running(opened(files, catalogue, topic_settings=chosen)) as runtime:
        partition = led(runtime, runtime.directory.logs[at], has_sole_client=True)
        files.watch()
        rows = wanted(partition), wanted(partition, 7)
        fetch = fetch_of(*rows, is_committed=True)
        assert not fetch.try_now()
        assert [found.size for found in fetch.found] == [0, 0]

        await fetch.read_in_turns(CooperativeYield())
        assert not fetch.is_cold
        assert all(found.size for found in fetch.found)
        assert [one.producer_id for one in fetch.found[0].aborted or ()] == [7]
        assert len(partition.log.segments) > 2
        files.chill()
        fetch = fetch_of(*rows, min_bytes=1)
        await fetch.wait(0.1)  # Nothing is written meanwhile: it reads when its time is up.
        assert [found.size > 0 for found in fetch.found] == [True, True]
        files.loop_thread = 0
        assert files.waits == []


# Waiting


async def test_a_fetch_waits_until_enough_has_been_written_and_no_longer() -> None:
    async with partitions(2) as (first, second):
        first.append_own(ONE)
        fetch = fetch_of(wanted(first), wanted(second), min_bytes=3 * SIZE)
        fetch.try_now()
        waiting = asyncio.create_task(fetch.wait(600))
        await asyncio.sleep(0)
        second.append_own(ONE)
        await asyncio.sleep(0.01)
        assert not waiting.done()
        second.append_own(ONE)
        await asyncio.wait_for(waiting, 60)

        assert [found.size for found in fetch.found] == [SIZE, 2 * SIZE]
        assert not first._waiting
        assert not second._waiting


async def test_a_fetch_ends_with_what_there_is_when_its_time_is_up() -> None:
    async with partitions(1) as (partition,):
        partition.append_own(ONE)
        fetch = fetch_of(wanted(partition), min_bytes=MANY)
        fetch.try_now()
        began = asyncio.get_running_loop().time()
        await asyncio.wait_for(fetch.wait(0.05), 60)

        assert asyncio.get_running_loop().time() - began >= 0.05
        assert fetch.size == SIZE
        assert not partition._waiting


async def test_what_was_written_between_the_read_and_the_wait_ends_the_wait() -> None:
    async with partitions(1) as (partition,):
        fetch = fetch_of(wanted(partition))
        fetch.try_now()
        partition.append_own(ONE)
        await asyncio.wait_for(fetch.wait(600), 60)

        assert fetch.size == SIZE


async def test_a_fetch_of_many_partitions_waits_too() -> None:
    async with partitions(2) as (first, second):
        fetch = fetch_of(*[wanted(first)] * FEW_PARTITIONS, wanted(second))
        await fetch.read_in_turns(CooperativeYield())
        waiting = asyncio.create_task(fetch.wait(600))
        await asyncio.sleep(0)
        second.append_own(ONE)
        await asyncio.wait_for(waiting, 60)

        assert fetch.found[-1].size == SIZE


async def test_the_end_of_a_leadership_ends_the_wait() -> None:
    async with partitions(2) as (first, second):
        fetch = fetch_of(wanted(first), wanted(second))
        fetch.try_now()
        waiting = asyncio.create_task(fetch.wait(600))
        await asyncio.sleep(0)
        second.retire(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await asyncio.wait_for(waiting, 60)

        assert [found.error for found in fetch.found] == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]


@pytest.mark.parametrize("is_hurried", [False, True])
async def test_a_follower_waits_for_records_and_one_in_a_hurry_for_the_high_watermark(is_hurried: bool) -> None:
    async with partitions(1, is_sole=False) as (partition,):
        partition.append_own(ONE)
        fetch = follower_fetch(wanted(partition, 1)._replace(known_high_watermark=0 if is_hurried else None))
        fetch.try_now()
        due: list[bool] = []
        fetch.wait_for_more(lambda: due.append(fetch.is_due()))
        assert partition.leader is not None
        partition.leader.note_fetch(OTHER, 1, 1, 1, 0)
        partition.advance()
        assert due == ([True] if is_hurried else [])
        partition.append_own(ONE)

        assert due[-1:] == [True]

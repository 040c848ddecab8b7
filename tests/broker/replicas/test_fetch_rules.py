"""When a fetch is enough, when another read is due, and what a client's leader epochs mean for the response."""

from __future__ import annotations

import asyncio

import pytest
from tests.broker.replicas.test_fetch_reads import EPOCH, MANY, ONE, SIZE, answer, fetch_of, partitions, sizes, wanted
from tests.broker.test_partition import follow, led
from tests.log.batches import batch
from tests.log.directories import running_log
from tests.log.runtime.test_cold_reads import at_once

from qanat.broker.replicas.fetch import FEW_PARTITIONS, Fetch, Wanted, leader_epoch_error
from qanat.broker.replicas.partition import Partition
from qanat.broker.runtime import cooperative_yield
from qanat.log.leader_epochs import EpochEnd
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import LeaderEpoch, Offset


def follower_fetch(*rows: Wanted, min_bytes: int = 1) -> Fetch:
    return Fetch(rows, MANY, min_bytes, is_committed=False, is_follower=True)


def hurried(partition: Partition, offset: int = 0) -> Wanted:
    """The request of a follower that knows the high watermark and should learn of a higher one at once."""
    return wanted(partition, offset)._replace(known_high_watermark=partition.log.high_watermark)


# Filling a response


async def test_a_later_partition_gives_the_batches_that_fit_into_the_room_left() -> None:
    async with partitions(2) as (first, second):
        first.append_own(ONE)
        for _ in range(3):
            second.append_own(ONE)

        assert await sizes(fetch_of(wanted(first), wanted(second), max_bytes=3 * SIZE)) == [SIZE, 2 * SIZE]


async def test_a_fetch_that_has_not_read_yet_has_nothing_and_waits_for_what_it_wants() -> None:
    async with partitions(1) as (partition,):
        fetch = fetch_of(wanted(partition), min_bytes=SIZE)

        assert (fetch.found, fetch.size, fetch.is_cold, fetch.is_enough) == ([], 0, False, False)
        assert not fetch_of(wanted(partition)).is_enough, "not one byte"
        partition.append_own(ONE)
        assert fetch.is_due()
        assert not fetch_of(wanted(partition), min_bytes=SIZE + 1).is_due()


# Leader epochs


@pytest.mark.parametrize(
    ("known", "error"),
    [
        (-1, ErrorCode.NONE),
        (EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH),
        (EPOCH, ErrorCode.NONE),
        (EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
async def test_a_client_of_an_older_leader_is_fenced_and_one_of_a_newer_leader_is_unknown(
    known: int, error: ErrorCode
) -> None:
    async with partitions(1) as (partition,):
        assert leader_epoch_error(known, partition) is error


async def test_a_follower_whose_log_diverges_is_told_at_once() -> None:
    async with partitions(1, is_sole=False) as (partition,):
        partition.append_own(ONE)
        fetch = follower_fetch(wanted(partition, 2)._replace(last_fetched_epoch=EPOCH))
        fetch.try_now()

        assert fetch.found[0].diverging == EpochEnd(LeaderEpoch(EPOCH), Offset(1))
        assert fetch.is_enough


async def test_a_follower_at_the_log_start_diverges_if_its_last_record_is_of_an_epoch_that_the_leader_never_had() -> (
    None
):
    async with running_log() as (runtime, log):
        Partition(log, runtime, b"", 1).append_own(batch(2))
        partition = led(runtime, log)
        partition.append_own(batch(2))
        log.advance_high_watermark(2)
        log.advance_log_start(1)  # The epoch of the record before is no longer known.
        fetch = follower_fetch(wanted(partition, 1)._replace(last_fetched_epoch=2))

        found = await answer(fetch)
        assert found.error is ErrorCode.NONE
        assert found.diverging == EpochEnd(LeaderEpoch(1), Offset(2))
        assert found.read is None


# Waiting


async def test_another_read_is_due_once_the_bytes_that_are_missing_have_been_written() -> None:
    async with partitions(1) as (partition,):
        partition.append_own(ONE)
        fetch = fetch_of(wanted(partition), min_bytes=3 * SIZE)
        fetch.try_now()
        assert not fetch.is_due()
        partition.append_own(ONE)
        assert not fetch.is_due()
        partition.append_own(ONE)

        assert fetch.is_due()


async def test_a_consumer_waits_for_bytes_however_far_the_high_watermark_moves() -> None:
    async with partitions(1) as (partition,):
        for row in (wanted(partition), hurried(partition)):
            fetch = fetch_of(row, min_bytes=9 * SIZE)
            fetch.try_now()
            before = partition.log.high_watermark
            partition.append_own(ONE)

            assert partition.log.high_watermark > before
            assert not fetch.is_due()


async def test_a_follower_in_a_hurry_reads_again_when_one_high_watermark_moves_and_not_before() -> None:
    async with partitions(3, is_sole=False) as (first, second, third):
        for partition in (first, second, third):
            partition.append_own(ONE)
        rows = hurried(first, 1), wanted(second, 1), hurried(third, 1), wanted(ErrorCode.UNKNOWN_TOPIC_ID)
        calm = follower_fetch(*[wanted(partition, 1) for partition in (first, second, third)])
        fetch = follower_fetch(*rows)
        for one in (calm, fetch):
            one.try_now()
            assert not one.is_due()
        follow(third, 1)

        assert third.log.high_watermark == 1
        assert fetch.is_due()
        assert not calm.is_due(), "it waits for records"


async def test_a_wait_whose_time_is_up_is_over_on_a_clock_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    async with partitions(1) as (partition,):
        fetch = fetch_of(wanted(partition))
        fetch.try_now()
        now = asyncio.get_running_loop().time()
        with monkeypatch.context() as stopped:
            stopped.setattr(asyncio.get_running_loop(), "time", lambda: now)

            at_once(fetch.wait(0))
        assert not fetch.is_enough


async def test_a_leadership_that_ends_between_the_read_and_the_wait_is_answered_at_once() -> None:
    async with partitions(1) as (partition,):
        fetch = fetch_of(wanted(partition))
        fetch.try_now()
        partition.retire(ErrorCode.NOT_LEADER_OR_FOLLOWER)

        at_once(fetch.wait(30))
        assert fetch.found[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_high_watermark_that_moves_between_the_read_and_the_wait_is_told_at_once() -> None:
    async with partitions(1, is_sole=False) as (partition,):
        partition.append_own(ONE)
        fetch = follower_fetch(hurried(partition, 1))
        fetch.try_now()
        follow(partition, 1)

        at_once(fetch.wait(30))
        assert fetch.found[0].high_watermark == 1


@pytest.mark.parametrize("count", [FEW_PARTITIONS, FEW_PARTITIONS + 1])
async def test_a_wait_reads_few_partitions_in_one_go_and_lets_others_run_between_many(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with partitions(1) as (partition,):
        fetch = fetch_of(*[wanted(partition)] * count)
        fetch.try_now()
        waiting = asyncio.create_task(fetch.wait(30))
        await asyncio.sleep(0)
        seconds = iter(range(10 * count))
        monkeypatch.setattr(cooperative_yield, "clock", lambda: float(next(seconds)))  # Every row takes long.
        partition.append_own(ONE)
        turns = 0
        while not waiting.done():
            turns += 1
            await asyncio.sleep(0)

        assert fetch.size == count * SIZE
        assert turns > count if count > FEW_PARTITIONS else turns < 20

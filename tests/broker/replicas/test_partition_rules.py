"""A partition that this broker leads: how many replicas it needs, what it lets read, and what an append changes."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.broker.test_partition import EPOCH, ME, OTHER, TOPIC_ID, append_fast, follow, leading, led
from tests.log.batches import NOW, Writer, batch
from tests.log.directories import running_log, until

from qanat.broker.replicas.partition import EndMarker, Partition, Written
from qanat.broker.settings.topic_settings import TopicSettings
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.settings import NEVER_MS, TimestampType
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import NotLeaderError
from qanat.model.ids import NO_TIMESTAMP
from qanat.replication.leader import Leader
from qanat.wire.control import MARKER_SIZE

UNFLUSHED: dict[str, Any] = {"flush_messages": NEVER_MS, "flush_ms": NEVER_MS}
"""Settings that leave flushing to the kernel."""
PRODUCER_ID = 7

Append = Callable[[Partition, bytes], Written | None]


def led_with(runtime: LogRuntime, log: PartitionLog, in_sync: Sequence[int]) -> Partition:
    """A partition of two replicas, of which these are in sync."""
    leader = Leader(ME, log.end_offset, lag_max_ms=1000)
    leader.stored((ME, OTHER), in_sync, 0)
    return Partition(log, runtime, TOPIC_ID, EPOCH, leader)


def open_transaction(partition: Partition) -> int:
    """Append the first record of a transaction; returns its size."""
    first = batch(1, writer=Writer(PRODUCER_ID), is_transactional=True)
    partition.append_own(first)
    return len(first)


def commit_transaction(partition: Partition) -> asyncio.Future[None] | None:
    return partition.append_marker(EndMarker(PRODUCER_ID, 0, 0, is_commit=True))


# Replicas in sync


async def test_a_partition_needs_one_member_until_its_settings_ask_for_more_and_never_more_than_it_has() -> None:
    async with running_log() as (runtime, log):
        partition = led_with(runtime, log, (ME,))
        assert (partition.in_sync_replicas, partition.needed_in_sync) == (1, 1)
        assert partition.lacks_replicas is False

        for asked, needed in ((2, 2), (3, 2)):
            partition.apply_settings(TopicSettings(log.settings, asked))
            assert (partition.in_sync_replicas, partition.needed_in_sync) == (1, needed)
            assert partition.lacks_replicas is True


async def test_a_sole_replica_lacks_no_other_whatever_the_settings_ask_for() -> None:
    async with leading(has_sole_client=True) as (_, partition):
        partition.apply_settings(TopicSettings(partition.log.settings, 3))

        assert (partition.in_sync_replicas, partition.needed_in_sync) == (1, 1)
        assert partition.lacks_replicas is False


async def test_records_are_committed_as_soon_as_the_settings_ask_for_no_more_members_than_there_are() -> None:
    async with running_log(**UNFLUSHED) as (runtime, log):
        partition = led_with(runtime, log, (ME,))
        partition.apply_settings(TopicSettings(log.settings, 2))
        durable = partition.append_own(batch(1)).durable
        assert durable is not None
        assert log.high_watermark == 0

        partition.apply_settings(TopicSettings(log.settings, 1))
        assert log.high_watermark == 1
        assert durable.done()


# The beginning and the end of a leadership


async def test_a_sole_replica_begins_with_what_is_on_disk_and_a_leader_with_what_it_knew_as_a_follower() -> None:
    async with running_log() as (runtime, log):
        led(runtime, log, has_sole_client=True).append_own(batch(2))
        await until(lambda: log.high_watermark == 2)
        log.high_watermark = 1
        led(runtime, log)
        assert log.high_watermark == 1

        led(runtime, log, has_sole_client=True)
        assert log.high_watermark == 2


async def test_a_sole_replica_knows_its_high_watermark_though_not_everything_is_on_disk() -> None:
    async with running_log(**UNFLUSHED) as (runtime, log):
        runtime.append_own(log, batch(2), 0)
        partition = led(runtime, log, has_sole_client=True)
        assert log.high_watermark < partition.epoch_start

        partition.require_high_watermark()


async def test_the_leader_of_an_empty_log_knows_its_high_watermark_without_hearing_of_its_followers() -> None:
    async with leading() as (_, partition):
        partition.require_high_watermark()
        await partition.have_high_watermark(10)


async def test_whoever_waits_for_the_high_watermark_hears_that_the_leadership_is_over() -> None:
    async with running_log() as (runtime, log):
        runtime.append_own(log, batch(2), 0)
        partition = led(runtime, log)
        waiting = asyncio.create_task(partition.have_high_watermark(10))
        await asyncio.sleep(0)
        partition.retire()

        with pytest.raises(NotLeaderError):
            await waiting
        with pytest.raises(NotLeaderError):
            await partition.have_high_watermark(10)


async def test_a_partition_gives_no_reason_for_its_end_before_it_has_ended() -> None:
    async with leading() as (_, partition):
        assert partition.why_retired is ErrorCode.NONE


async def test_waits_that_nobody_looks_at_any_more_end_without_a_complaint() -> None:
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    async with leading() as (_, partition):
        partition.append_own(batch(1))
        partition.when_started(1)
        partition.retire()
        gc.collect()

    assert faults == []


# Reading


async def test_a_consumer_of_committed_records_reads_up_to_the_first_open_transaction() -> None:
    async with leading(has_sole_client=True, **UNFLUSHED) as (_, partition):
        partition.append_own(batch(1))
        open_transaction(partition)

        assert partition.end_of_reading(is_committed=True) == 1
        assert partition.end_of_reading(is_committed=False) == 2


async def test_a_fetch_that_has_stopped_waiting_is_not_woken() -> None:
    async with leading(**UNFLUSHED) as (_, partition):
        woken: list[str] = []

        def wake() -> None:
            woken.append("woken")

        partition.wait_for_more(wake)
        partition.wait_for_more(wake, is_follower=True)
        partition.stop_waiting(wake)
        partition.append_own(batch(1))
        follow(partition, 1)

        assert partition.log.high_watermark == 1
        assert woken == []


async def test_a_consumer_is_not_woken_while_the_high_watermark_stays() -> None:
    async with leading(has_sole_client=True, **UNFLUSHED) as (_, partition):
        first = batch(1, writer=Writer(PRODUCER_ID))
        append_fast(partition, first)
        readable, woken = partition.readable_bytes, list[int]()
        partition.wait_for_more(lambda: woken.append(partition.log.high_watermark))
        partition.advance()
        again = append_fast(partition, first)

        assert again is not None
        assert again.base_offset == 0, "the batch is in the log already"
        assert partition.readable_bytes == readable
        assert woken == []
        append_fast(partition, batch(1))
        assert woken == [2]


# Appending


async def test_the_fast_path_of_a_leader_waits_for_its_followers() -> None:
    async with leading(**UNFLUSHED) as (_, partition):
        written = append_fast(partition, batch(1))
        assert written is not None
        assert written.durable is not None
        assert partition.log.high_watermark == 0

        follow(partition, 1)
        assert written.durable.done()
        assert partition.log.high_watermark == 1


async def test_a_leader_that_is_alone_in_sync_commits_a_record_as_it_writes_it() -> None:
    async with running_log(**UNFLUSHED) as (runtime, log):
        partition = led_with(runtime, log, (ME,))

        assert partition.append_own(batch(1)).durable is None
        assert log.high_watermark == 1


@pytest.mark.parametrize("has_sole_client", [False, True])
@pytest.mark.parametrize(
    ("kind", "told"), [(TimestampType.CREATE_TIME, NO_TIMESTAMP), (TimestampType.LOG_APPEND_TIME, NOW)]
)
async def test_a_producer_hears_the_time_of_the_append_only_where_the_topic_uses_it(
    has_sole_client: bool, kind: TimestampType, told: int
) -> None:
    async with leading(has_sole_client=has_sole_client, message_timestamp_type=kind) as (_, partition):
        written = partition.append_now(batch(1, timestamps=NOW - 5))

        assert written is not None
        assert written.append_time_ms == told


async def test_a_marker_of_a_leader_is_flushed_wakes_followers_and_waits_for_them() -> None:
    async with leading(**UNFLUSHED) as (_, partition):
        size, woken = open_transaction(partition), list[str]()
        partition.wait_for_more(lambda: woken.append("follower"), is_follower=True)
        ended = commit_transaction(partition)

        assert ended is not None
        assert woken == ["follower"]
        assert partition.written_bytes == size + MARKER_SIZE
        await until(lambda: partition.log.flushed_offset == 2)
        assert not ended.done()
        follow(partition, 2)
        assert ended.done()


async def test_a_marker_of_a_sole_replica_is_read_at_once_where_the_topic_is_not_flushed() -> None:
    async with leading(has_sole_client=True, **UNFLUSHED) as (_, partition):
        open_transaction(partition)
        assert partition.end_of_reading(is_committed=True) == 0
        ended = commit_transaction(partition)

        assert partition.log.high_watermark == 2
        assert partition.end_of_reading(is_committed=True) == 2
        assert ended is not None
        assert not ended.done(), "but it is acknowledged when it is on disk"
        await asyncio.wait_for(ended, 60)
        assert partition.log.flushed_offset == 2


@pytest.mark.parametrize("append", [append_fast, Partition.append_own])
async def test_a_repeated_batch_writes_nothing_that_waiting_fetches_count(append: Append) -> None:
    async with running_log(**UNFLUSHED) as (runtime, log):
        partition = led(runtime, log)
        for _ in range(2):
            append(partition, batch(1, writer=Writer(PRODUCER_ID)))

        assert log.end_offset == 1
        assert partition.written_bytes == log.size

"""A partition that this broker leads: what waits for what, and how waits end when the leadership is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.log.batches import batch
from tests.log.directories import WatchedFiles, WorkerBarrier, running_log, until
from tests.log.runtime.test_ingest import staged

from qanat.adapters.memory_files import MemoryFiles
from qanat.broker.replicas.partition import EndMarker, Partition, Written
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.runtime.waiting_appends import WRITTEN_ON_LOOP_BYTES
from qanat.log.settings import NEVER_MS
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import NotLeaderError, OffsetNotAvailableError
from qanat.replication.leader import Leader
from qanat.wire.kafka.fast_produce import read_fast_header

TOPIC_ID = b"\1" * 16
ME, OTHER = 0, 1
EPOCH = 3


@asynccontextmanager
async def leading(
    files: WatchedFiles | None = None, *, has_sole_client: bool = False, **settings: Any
) -> AsyncIterator[tuple[LogRuntime, Partition]]:
    """A partition of two replicas, both in sync, of which the other has not fetched yet; or of one."""
    async with running_log(files, **settings) as (runtime, log):
        yield runtime, led(runtime, log, has_sole_client=has_sole_client)


def led(runtime: LogRuntime, log: PartitionLog, *, has_sole_client: bool = False) -> Partition:
    leader = None
    if not has_sole_client:
        leader = Leader(ME, log.end_offset, lag_max_ms=1000)
        leader.stored((ME, OTHER), (ME, OTHER), 0)
    partition = Partition(log, runtime, TOPIC_ID, EPOCH, leader)
    runtime.on_flushed = lambda _: partition.advance()
    return partition


def append_fast(partition: Partition, content: bytes) -> Written | None:
    header = read_fast_header(content)
    assert header is not None
    return partition.append_fast(memoryview(bytearray(content)), header)


def follow(partition: Partition, offset: int, start_offset: int = 0) -> None:
    """The other replica has everything below an offset."""
    assert partition.leader is not None
    assert partition.leader.note_fetch(OTHER, 1, offset, partition.log.end_offset, 0, start_offset)
    partition.advance()
    partition.note_starts()


async def test_a_batch_is_acknowledged_when_every_member_has_it_and_not_before() -> None:
    async with leading() as (_, partition):
        durable = partition.append_own(batch(2)).durable
        assert durable is not None
        follow(partition, 1)
        assert not durable.done()

        follow(partition, 2)
        await asyncio.wait_for(durable, 60)
        assert partition.log.high_watermark == 2


async def test_acknowledgements_are_given_in_the_order_of_offsets_whoever_asked_first() -> None:
    async with leading() as (_, partition):
        partition.append_own(batch(1))
        second = partition.append_own(batch(1)).durable
        first = partition._when_committed(1)
        assert first is not None
        assert second is not None
        await until(lambda: partition.log.flushed_offset == 2)

        follow(partition, 1)
        assert first.done()
        assert not second.done()


async def test_a_retired_partition_tells_everybody_who_waits_that_it_does_not_lead() -> None:
    async with leading() as (_, partition):
        woken: list[str] = []
        durable = partition.append_own(batch(1)).durable
        started = partition.when_started(1)
        partition.wait_for_more(lambda: woken.append("consumer"))
        partition.wait_for_more(lambda: woken.append("follower"), is_follower=True)

        partition.retire(ErrorCode.NOT_LEADER_OR_FOLLOWER)

        assert woken == ["consumer", "follower"]
        for waiting in (durable, started):
            assert waiting is not None
            assert isinstance(waiting.exception(), NotLeaderError)
        assert partition.is_retired
        assert partition.why_retired is ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition.retire()
        assert woken == ["consumer", "follower"], "each is woken once"


async def test_nothing_is_committed_or_acknowledged_once_a_partition_is_retired() -> None:
    async with leading() as (_, partition):
        partition.append_own(batch(1))
        await until(lambda: partition.log.flushed_offset == 1)
        partition.retire()
        follow(partition, 1)

        assert partition.log.high_watermark == 0
        durable, started = partition.when_durable(), partition.when_started(1)
        for waiting in (durable, started):
            assert waiting is not None
            assert isinstance(waiting.exception(), NotLeaderError)


async def test_nothing_is_written_to_a_retired_partition() -> None:
    async with leading() as (_, partition):
        partition.retire()

        for write in (
            lambda: partition.append_now(batch(1)),
            lambda: partition.append_own(batch(1)),
            lambda: partition.append_marker(EndMarker(7, 0, 0, is_commit=True)),
        ):
            with pytest.raises(NotLeaderError):
                write()
        with pytest.raises(NotLeaderError):
            await partition.append(batch(1))
        assert partition.log.end_offset == 0


async def test_a_batch_that_waited_for_the_disk_while_the_partition_was_retired_is_not_acknowledged() -> None:
    """A sole replica that gets followers is led in the same epoch: the log itself would accept the batch."""
    barrier, files, large = (
        WorkerBarrier(),
        WatchedFiles(MemoryFiles()),
        batch([(b"key", bytes(WRITTEN_ON_LOOP_BYTES))]),
    )
    async with leading(files, has_sole_client=True, max_message_bytes=2 * len(large)) as (runtime, partition):
        files.before_write = barrier
        writing = asyncio.create_task(partition.append(large))
        await until(lambda: barrier.is_reached)
        partition.retire()
        led(runtime, partition.log)
        barrier.open()

        with pytest.raises(NotLeaderError):
            await writing


async def test_the_start_is_shared_when_every_member_has_it() -> None:
    async with leading() as (_, partition):
        partition.append_own(batch(4))
        await until(lambda: partition.log.flushed_offset == 4)
        follow(partition, 4)
        partition.log.advance_log_start(3)
        started = partition.when_started(3)
        assert started is not None

        follow(partition, 4, start_offset=2)
        assert not started.done()
        follow(partition, 4, start_offset=3)
        assert started.done()
        assert partition.when_started(3) is None


async def test_a_sole_replica_acknowledges_what_is_on_disk_and_not_before() -> None:
    barrier, files = WorkerBarrier(), WatchedFiles(MemoryFiles())
    async with leading(files, has_sole_client=True) as (_, partition):
        files.before_sync = barrier
        durable = partition.append_own(batch(1)).durable
        assert durable is not None
        await until(lambda: barrier.is_reached)
        assert not durable.done()
        assert partition.log.high_watermark == 0

        barrier.open()
        await asyncio.wait_for(durable, 60)
        await until(lambda: partition.log.high_watermark == 1)


async def test_the_fast_path_of_a_sole_replica_without_flushing_makes_records_readable_at_once() -> None:
    async with leading(has_sole_client=True, flush_messages=NEVER_MS, flush_ms=NEVER_MS) as (_, partition):
        woken: list[int] = []
        partition.wait_for_more(lambda: woken.append(partition.log.high_watermark))
        appended = [batch(2), batch(3)]
        written = [append_fast(partition, one) for one in appended]

        assert [one.base_offset for one in written if one is not None] == [0, 2]
        assert [one.durable for one in written if one is not None] == [None, None]
        assert partition.log.high_watermark == 5
        assert partition.readable_bytes == partition.written_bytes == sum(map(len, appended))
        assert woken == [2], "a consumer is woken once, when it can read"
        partition.retire()
        with pytest.raises(NotLeaderError):
            append_fast(partition, batch(1))


async def test_a_sole_replica_without_flushing_promises_no_more_than_the_write() -> None:
    async with leading(has_sole_client=True, flush_messages=NEVER_MS, flush_ms=NEVER_MS) as (_, partition):
        assert partition.append_own(batch(1)).durable is None
        assert partition.log.high_watermark == 1
        assert partition.when_durable() is None

    async with leading(has_sole_client=True) as (_, partition):
        partition.append_own(batch(1))
        durable = partition.when_durable()
        assert durable is not None
        await asyncio.wait_for(durable, 60)
        assert partition.log.flushed_offset == 1


async def test_a_new_leader_says_so_until_its_followers_have_confirmed_what_its_predecessor_acknowledged() -> None:
    async with running_log() as (runtime, log):
        led(runtime, log, has_sole_client=True).append_own(batch(2))
        log.high_watermark = 1
        partition = led(runtime, log)
        with pytest.raises(OffsetNotAvailableError):
            partition.require_high_watermark()
        with pytest.raises(OffsetNotAvailableError):
            await partition.have_high_watermark(0.01)

        waiting = asyncio.create_task(partition.have_high_watermark(600))
        await until(lambda: log.flushed_offset == 2)
        follow(partition, 2)
        await asyncio.wait_for(waiting, 60)
        partition.require_high_watermark()


async def test_a_file_of_batches_is_ingested_by_the_leader_and_not_by_a_retired_one() -> None:
    async with leading(has_sole_client=True) as (runtime, partition):
        batches = [batch(2), batch(3)]
        written = await partition.ingest(staged(runtime, batches, 5))
        assert written.base_offset == 0
        assert partition.log.end_offset == 5
        assert partition.written_bytes == sum(map(len, batches))
        partition.retire()
        with pytest.raises(NotLeaderError):
            await partition.ingest(staged(runtime, batches, 5))

        assert partition.log.end_offset == 5

"""A coordinator's shard on a real log: no request is answered before its decision is durable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.broker.test_partition import EPOCH, follow, led
from tests.groups.shell import RANGE, Topics
from tests.log.batches import NOW
from tests.log.directories import WatchedFiles, WorkerBarrier, running_log, until

from qanat.adapters.memory_files import MemoryFiles
from qanat.broker.coordinators.coordinator_shard import Clocks
from qanat.broker.coordinators.group_coordinator import GroupCoordinatorShard
from qanat.broker.replicas.partition import Partition
from qanat.groups.decisions import Decision
from qanat.groups.replies import CommitReply, FetchReply, JoinReply, Reply
from qanat.groups.requests import CommitOffsets, FetchOffsets, JoinGroup, OffsetToCommit
from qanat.groups.settings import GroupSettings
from qanat.groups.shard import GroupShard
from qanat.log.files import Files
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.model.clock import Now
from qanat.model.error_codes import ErrorCode
from qanat.telemetry.broker_counters import BrokerCounters
from qanat.testing.simulation.disk import SimDisk
from qanat.testing.simulation.disk_faults import DiskFaults

GROUP = "readers"
DELAY_MS = 50


@asynccontextmanager
async def serving(
    files: Files | None = None, *, has_sole_client: bool = True
) -> AsyncIterator[tuple[LogRuntime, Partition, GroupCoordinatorShard]]:
    """A shard of groups on a partition with a sole replica, or with a follower that has not fetched yet."""
    async with running_log(files) as (runtime, log):
        partition = led(runtime, log, has_sole_client=has_sole_client)
        yield runtime, partition, hosted(partition)


def hosted(partition: Partition) -> GroupCoordinatorShard:
    def steady_ms() -> int:
        return round(asyncio.get_running_loop().time() * 1000)

    shard = GroupShard(GroupSettings(group_initial_rebalance_delay_ms=DELAY_MS), Topics())
    return GroupCoordinatorShard(shard, partition, Clocks(steady_ms, lambda: NOW), BrokerCounters())


def commit(offset: int) -> CommitOffsets:
    return CommitOffsets(GROUP, (OffsetToCommit("orders", 0, offset),))


def join() -> JoinGroup:
    return JoinGroup(GROUP, "", "consumer", (RANGE,), 10_000, 10_000, "1", "c", "/127.0.0.1", None, False, True)


def outcome(answer: asyncio.Future[Reply]) -> ErrorCode:
    reply = answer.result()
    assert isinstance(reply, CommitReply)
    return reply.partitions[0].error


async def test_c50_an_answer_waits_for_the_disk_and_so_does_every_answer_after_it() -> None:
    barrier, files = WorkerBarrier(), WatchedFiles(MemoryFiles())
    async with serving(files) as (_, partition, shard):
        files.before_sync = barrier
        answers = [shard.ask(commit(17)), shard.ask(FetchOffsets(GROUP))]
        await until(lambda: barrier.is_reached)
        assert partition.log.end_offset == 1, "it is decided and written"
        assert not any(answer.done() for answer in answers), "a reader must not see what may be lost yet"

        barrier.open()
        await asyncio.wait_for(asyncio.gather(*answers), 60)
        assert outcome(answers[0]) is ErrorCode.NONE
        fetched = answers[1].result()
        assert isinstance(fetched, FetchReply)
        assert [one.offset for one in fetched.offsets] == [17]
        assert not shard._unreleased, "whoever has an answer is remembered no longer"


async def test_c50_an_answer_waits_for_every_member_of_the_in_sync_set() -> None:
    async with serving(has_sole_client=False) as (_, partition, shard):
        answer = shard.ask(commit(17))
        await until(lambda: partition.log.flushed_offset == 1)
        assert not answer.done()

        follow(partition, 1)
        await asyncio.wait_for(answer, 60)
        assert outcome(answer) is ErrorCode.NONE


async def test_answers_are_given_in_the_order_of_their_decisions() -> None:
    async with serving(has_sole_client=False) as (_, partition, shard):
        told: list[int] = []
        answers = [shard.ask(commit(offset)) for offset in range(3)]
        for number, answer in enumerate(answers):
            answer.add_done_callback(lambda _, number=number: told.append(number))  # type: ignore[misc]
        await until(lambda: partition.log.flushed_offset == 3)
        follow(partition, 2)
        await asyncio.gather(*answers[:2])
        assert not answers[2].done(), "the follower lacks the third"

        follow(partition, 3)
        await asyncio.gather(*answers)
        assert told == [0, 1, 2]


async def test_a_request_that_changes_nothing_is_answered_at_once_where_nothing_is_on_its_way() -> None:
    async with serving(has_sole_client=False) as (_, partition, shard):
        assert shard.ask(FetchOffsets(GROUP)).done()
        assert partition.log.end_offset == 0


async def test_a_failed_fsync_refuses_whoever_waits_and_ends_the_shard() -> None:
    disk = SimDisk(1)
    async with running_failing(disk) as (partition, shard):
        disk.fail_next("sync")
        answers = [shard.ask(commit(17)), shard.ask(commit(18))]
        await asyncio.wait_for(asyncio.gather(*answers), 60)

        assert [outcome(answer) for answer in answers] == [ErrorCode.NOT_COORDINATOR] * 2
        assert not shard.is_serving
        end_offset = partition.log.end_offset
        assert outcome(shard.ask(commit(19))) is ErrorCode.NOT_COORDINATOR
        assert partition.log.end_offset == end_offset, "what has ended decides nothing"


async def test_what_follows_a_decision_is_done_when_it_is_durable_and_never_where_it_is_lost() -> None:
    """Markers of a lost verdict would end a transaction by a decision that was never made."""
    disk, followed = SimDisk(1), list[Decision]()
    async with running_failing(disk) as (_, shard):
        shard._follow = followed.append  # type: ignore[method-assign, assignment]
        await asyncio.wait_for(shard.ask(commit(17)), 60)
        assert len(followed) == 1
        disk.fail_next("sync")
        await asyncio.wait_for(shard.ask(commit(18)), 60)
        await asyncio.sleep(0)

        assert len(followed) == 1


async def test_an_append_that_the_disk_refuses_ends_the_shard_and_refuses_whoever_waited_before_it() -> None:
    disk = SimDisk(1)
    async with running_failing(disk, has_sole_client=False) as (partition, shard):
        waiting = shard.ask(commit(17))
        disk.faults = DiskFaults(is_read_only=True)
        refused = shard.ask(commit(18))

        assert refused.done()
        assert waiting.done()
        assert outcome(refused) is not ErrorCode.NONE
        assert outcome(waiting) is outcome(refused)
        assert not shard.is_serving
        follow(partition, 1)
        assert outcome(waiting) is not ErrorCode.NONE, "an answer that was given stays"


@asynccontextmanager
async def running_failing(
    disk: SimDisk, *, has_sole_client: bool = True
) -> AsyncIterator[tuple[Partition, GroupCoordinatorShard]]:
    """The same on a disk that fails: it cannot be closed cleanly, and need not be."""
    manager = serving(disk, has_sole_client=has_sole_client)
    _, partition, shard = await manager.__aenter__()
    yield partition, shard
    shard.close()


async def test_whoever_waits_is_told_to_look_elsewhere_when_the_partition_is_resigned() -> None:
    async with serving(has_sole_client=False) as (_, partition, shard):
        answers = [shard.ask(commit(17)), shard.ask(FetchOffsets(GROUP))]
        await until(lambda: partition.log.flushed_offset == 1)

        partition.retire(ErrorCode.NOT_LEADER_OR_FOLLOWER)

        await asyncio.wait_for(asyncio.gather(*answers), 60)
        assert outcome(answers[0]) is ErrorCode.NOT_COORDINATOR
        fetched = answers[1].result()
        assert isinstance(fetched, FetchReply)
        assert fetched.error is ErrorCode.NOT_COORDINATOR
        assert outcome(shard.ask(commit(18))) is ErrorCode.NOT_COORDINATOR


async def test_whoever_waits_is_refused_once_when_the_shard_is_closed_though_it_is_durable_later() -> None:
    async with serving(has_sole_client=False) as (_, partition, shard):
        answer = shard.ask(commit(17))
        shard.close()
        assert outcome(answer) is ErrorCode.NOT_COORDINATOR

        follow(partition, 1)
        await asyncio.sleep(0)
        assert outcome(answer) is ErrorCode.NOT_COORDINATOR


async def test_c38_a_shard_of_an_old_leader_epoch_writes_nothing_and_says_so() -> None:
    async with serving() as (runtime, partition, shard):
        Partition(partition.log, runtime, partition.topic_id, EPOCH + 1)
        answer = shard.ask(commit(17))

        assert answer.done()
        assert outcome(answer) is ErrorCode.NOT_COORDINATOR
        assert partition.log.end_offset == 0
        assert not shard.is_serving


async def test_a_parked_answer_is_given_when_its_deadline_has_come_and_that_is_durable() -> None:
    barrier, files = WorkerBarrier(), WatchedFiles(MemoryFiles())
    async with serving(files) as (_, _, shard):
        joining = shard.ask(join())
        assert not joining.done(), "others may join"
        files.before_sync = barrier
        await until(lambda: barrier.is_reached)
        assert not joining.done()

        barrier.open()
        reply = await asyncio.wait_for(joining, 60)
        assert isinstance(reply, JoinReply)
        assert reply.error is ErrorCode.NONE


async def test_a_shard_that_has_ended_ticks_no_more() -> None:
    async with serving() as (_, partition, shard):
        joining = shard.ask(join())
        shard.close()
        end_offset = partition.log.end_offset
        await asyncio.sleep(2 * DELAY_MS / 1000)

        reply = joining.result()
        assert isinstance(reply, JoinReply)
        assert reply.error is ErrorCode.NOT_COORDINATOR
        assert partition.log.end_offset == end_offset


async def test_whoever_has_gone_away_keeps_nobody_from_an_answer() -> None:
    async with serving(has_sole_client=False) as (_, partition, shard):
        gone, waiting = shard.ask(commit(17)), shard.ask(commit(18))
        await until(lambda: partition.log.flushed_offset == 2)
        gone.cancel()
        follow(partition, 2)

        await asyncio.wait_for(waiting, 60)
        assert outcome(waiting) is ErrorCode.NONE


async def test_whoever_has_gone_away_is_passed_over_when_the_shard_ends() -> None:
    async with serving(has_sole_client=False) as (_, _, shard):
        gone, waiting = shard.ask(commit(17)), shard.ask(commit(18))
        gone.cancel()
        shard.close()

        assert outcome(waiting) is ErrorCode.NOT_COORDINATOR


async def test_one_tick_comes_when_the_next_deadline_has_however_much_is_decided_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ticks: list[int] = []
    tick = GroupShard.tick

    def counted(shard: GroupShard, now: Now) -> Decision:
        ticks.append(now.steady_ms)
        return tick(shard, now)

    monkeypatch.setattr(GroupShard, "tick", counted)
    async with serving() as (_, _, shard):
        joining = shard.ask(join())
        for _ in range(10):
            shard.ask(FetchOffsets(GROUP))
        assert not ticks
        await asyncio.wait_for(joining, 60)

    assert 1 <= len(ticks) <= 3, "a clock that is read in milliseconds may be early by one"

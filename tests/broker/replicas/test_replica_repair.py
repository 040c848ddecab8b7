"""When a follower truncates its replica: where it diverges, where its leader starts later, and where it is damaged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.broker.replicas.fetcher_host import EPOCH, LEADER, ME, Host, host, named, row, simulated, soon
from tests.log.batches import batch
from tests.log.directories import until

from qanat.broker.replicas.local_replicas import FollowerReplica
from qanat.cluster.values import PartitionState
from qanat.log.segments.batch_scan import Damage
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import StorageError
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages.fetch import EpochEndOffset


async def test_a_replica_that_diverges_is_truncated_and_does_not_lead_meanwhile() -> None:
    async with host() as broker:
        replica = await broker.following(0, records=3)
        await broker.request(0)
        park, meanwhile = broker.park, list[list[TopicPartition]]()

        def note(work: Any) -> Any:
            meanwhile.append(list(broker.fetchers.truncating))
            return park(work)

        broker.park = note
        broker.link.answer(row(diverging_epoch=EpochEndOffset(EPOCH - 1, 1)))
        assert named(await broker.request(1)) == [(0, 1)]

        assert replica.log.end_offset == 1
        assert [replica.at] in meanwhile
        assert broker.fetchers.truncating == {}
        assert broker.happened("retire")[-1] == [replica.at], "it is not read meanwhile"


async def test_a_replica_restarts_where_its_leaders_log_starts_later() -> None:
    async with host() as broker:
        replica = await broker.following(0, records=3)
        await broker.request(0)
        broker.link.answer(row(error_code=ErrorCode.OFFSET_OUT_OF_RANGE.value, log_start_offset=7))

        assert named(await broker.request(1)) == [(0, 7)]
        assert (replica.log.log_start_offset, replica.log.end_offset) == (7, 7)


async def test_a_leader_that_would_truncate_beyond_the_end_pauses_the_replica() -> None:
    async with host() as broker:
        replica = await broker.following(0, records=2)
        await broker.request(0)
        fetcher = broker.fetchers._leaders[LEADER]
        began = asyncio.get_running_loop().time()
        broker.link.answer(row(diverging_epoch=EpochEndOffset(EPOCH - 1, 2)))
        await until(lambda: replica.at in fetcher._paused)
        assert fetcher._paused[replica.at] >= began + 0.2

        await broker.request(1)
        assert asyncio.get_running_loop().time() >= began + 0.2
        assert replica.log.end_offset == 2


async def test_records_that_do_not_continue_the_log_pause_their_replica_alone() -> None:
    async with host() as broker:
        first, second = await broker.replica(0), await broker.replica(1)
        for one in (first, second):
            broker.fetchers.follow(one)
        await broker.request(0)
        fetcher = broker.fetchers._leaders[LEADER]
        rotten = bytearray(batch(1, leader_epoch=EPOCH))
        rotten[-1] ^= 1
        broker.link.answer(row(0, bytes(rotten)), row(1, batch(1, leader_epoch=EPOCH)))
        await broker.request(1)

        assert first.at in fetcher._paused
        assert (first.log.end_offset, second.log.end_offset) == (0, 1)


def state(damaged: Sequence[int], leader_epoch: int = EPOCH) -> PartitionState:
    return PartitionState(
        leader=LEADER, leader_epoch=leader_epoch, replicas=(ME, LEADER), in_sync=(), damaged=tuple(damaged)
    )


def damage(replica: FollowerReplica, *firsts: int) -> None:
    """Records at these offsets cannot be read."""
    size = len(batch(1))
    for first in firsts:
        segment = next(one for one in reversed(replica.log.segments) if one.base_offset <= first)
        start = (first - segment.base_offset) * size
        replica.log.note_damage(segment, (Damage(start, start + size, first, first + 1, "rot"),))


async def damaged(broker: Host, *firsts: int, **settings: object) -> FollowerReplica:
    """A replica of four records that is to be repaired: those at these offsets cannot be read."""
    replica = await broker.replica(0, 4, **settings)
    damage(replica, *firsts)
    broker.states[replica.at] = state([ME])
    broker.damaged[replica.at] = None
    return replica


@pytest.mark.parametrize(
    ("firsts", "policy", "kept"), [((2, 1), "delete", 1), ((2,), "compact", 0), ((0,), "delete", 0)]
)
async def test_a_damaged_replica_is_truncated_to_what_is_sound_and_fetched_again(
    firsts: Sequence[int], policy: str, kept: int
) -> None:
    async with host() as broker:
        replica = await damaged(broker, *firsts, cleanup_policy=policy)
        broker.fetchers.follow(replica)

        assert named(await broker.request(0)) == [(0, kept)]
        assert replica.log.end_offset == kept
        assert not replica.log.damage
        assert broker.happened("repaired") == [[replica.at]]


@pytest.mark.parametrize("stored", [None, state([LEADER]), state([ME], EPOCH - 1)])
async def test_a_damaged_replica_waits_until_the_store_says_so_in_its_epoch(stored: PartitionState | None) -> None:
    async with host() as broker:
        replica = await broker.replica(0, 2)
        damage(replica, 0)
        if stored is not None:
            broker.states[replica.at] = stored
        broker.damaged[replica.at] = None
        broker.fetchers.follow(replica)
        fetcher = broker.fetchers._leaders[LEADER]
        await until(lambda: replica.at in fetcher._paused)
        assert broker.happened("repaired") == []
        assert replica.log.end_offset == 2
        broker.states[replica.at] = state([ME])
        await broker.request(0)

        assert broker.happened("repaired") == [[replica.at]]
        assert replica.log.end_offset == 0


async def test_a_replica_whose_damage_is_gone_is_repaired_as_it_is() -> None:
    async with host() as broker:
        replica = await broker.replica(0, 2)
        broker.states[replica.at] = state([ME])
        broker.damaged[replica.at] = None
        broker.fetchers.follow(replica)

        assert named(await broker.request(0)) == [(0, 2)]
        assert broker.happened("repaired") == [[replica.at]]


async def test_a_truncation_that_fails_pauses_its_replica_and_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async with host() as broker:
        replica = await broker.following(0, records=3)
        await broker.request(0)

        async def failing(*_: object) -> None:
            raise StorageError("the disk is full")

        monkeypatch.setattr(broker.runtime, "truncate", failing)
        fetcher = broker.fetchers._leaders[LEADER]
        broker.link.answer(row(diverging_epoch=EpochEndOffset(EPOCH - 1, 1)))
        await until(lambda: replica.at in fetcher._paused)

        assert broker.fetchers.truncating == {}
        await broker.request(1)
        assert replica.log.end_offset == 3


# In simulated time

TWO_BATCHES = 2 * len(batch(1))


@simulated
async def test_a_truncated_replica_is_fetched_at_once_and_those_who_wait_for_its_end_go_on() -> None:
    async with host() as broker:
        replica, other = await broker.replica(0, 3), await broker.replica(1)
        broker.fetchers.follow(replica)
        broker.fetchers.follow(other)
        await broker.request(0)
        broker.events.clear()
        broker.link.answer(row(0, diverging_epoch=EpochEndOffset(EPOCH - 1, 1)))
        await soon(lambda: replica.log.running_job == "truncation")
        assert broker.happened("retire") == [[replica.at]], "it is not read meanwhile"
        over = broker.fetchers.truncating[replica.at]
        broker.link.answer(row(1))
        assert named(await broker.request(2)) == [], "the other is fetched meanwhile"
        async with asyncio.timeout(1.0):
            await over
        broker.link.answer(row(1))

        await soon(lambda: len(broker.link.requests) > 3)
        assert named(broker.link.requests[3]) == [(0, 1)]


@pytest.mark.parametrize("firsts", [(), (2,)])
@simulated
async def test_a_repaired_replica_is_fetched_without_a_pause(firsts: Sequence[int]) -> None:
    async with host() as broker:
        replica = await damaged(broker, *firsts)
        began_s = asyncio.get_running_loop().time()
        broker.fetchers.follow(replica)
        await broker.request(0)

        assert broker.link.times[0] < began_s + 0.005


@simulated
async def test_a_replica_is_repaired_once_however_often_others_are_fetched_meanwhile() -> None:
    async with host() as broker:
        replica, other = await damaged(broker, 2), await broker.replica(1)
        broker.fetchers.follow(other)
        broker.fetchers.follow(replica)
        await soon(lambda: replica.at in broker.fetchers.truncating and len(broker.link.requests) == 1)
        broker.link.answer(row(1))
        await soon(lambda: len(broker.link.requests) == 2)
        assert replica.at in broker.fetchers.truncating
        await soon(lambda: not broker.fetchers.truncating)
        broker.link.answer(row(1))

        assert named(await broker.request(2)) == [(0, 2)]
        assert broker.happened("repaired") == [[replica.at]]


@simulated
async def test_a_replica_keeps_what_is_before_its_first_damage_in_any_segment() -> None:
    async with host() as broker:
        replica = await damaged(broker, 1, 2, segment_bytes=TWO_BATCHES)
        assert len(replica.log.segments) == 2
        broker.fetchers.follow(replica)

        assert named(await broker.request(0)) == [(0, 1)]


@simulated
async def test_a_replica_whose_damage_spreads_while_it_is_repaired_is_fetched_from_its_start() -> None:
    async with host() as broker:
        replica = await damaged(broker, 3, segment_bytes=TWO_BATCHES)
        broker.fetchers.follow(replica)
        await soon(lambda: replica.at in broker.fetchers.truncating)
        damage(replica, 1)

        assert named(await broker.request(0)) == [(0, 0)]
        assert not replica.log.damage
        assert broker.happened("repaired") == [[replica.at]]


@simulated
async def test_nothing_stays_of_a_replica_that_is_damaged_from_its_start_on() -> None:
    async with host() as broker:
        replica = await damaged(broker, 1)
        log = replica.log
        log.advance_high_watermark(4)
        log.advance_log_start(1)
        broker.fetchers.follow(replica)

        assert named(await broker.request(0)) == [(0, 1)]
        assert [(one.base_offset, one.size) for one in log.segments] == [(1, 0)]


@simulated
async def test_a_replica_that_is_left_while_it_is_repaired_is_repaired_all_the_same() -> None:
    async with host() as broker:
        replica = await damaged(broker, 2)
        broker.fetchers.follow(replica)
        await soon(lambda: replica.at in broker.fetchers.truncating)
        broker.fetchers.leave(replica.at)
        await soon(lambda: not broker.fetchers.truncating)

        assert broker.happened("repaired") == [[replica.at]]


@simulated
async def test_a_replica_is_fetched_at_once_when_it_is_followed_again_after_a_failed_truncation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with host() as broker:
        replica = await broker.following(0, records=3)
        await broker.following(1)
        await soon(lambda: len(broker.link.requests) == 2)
        failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        monkeypatch.setattr(broker.runtime, "truncate", lambda *_: failing)
        broker.link.answer(row(0, diverging_epoch=EpochEndOffset(EPOCH - 1, 1)))
        await soon(lambda: replica.at in broker.fetchers.truncating)
        broker.fetchers.leave(replica.at)
        failing.set_exception(StorageError("the disk is full"))
        await soon(lambda: not broker.fetchers.truncating)
        sent = len(broker.link.requests)
        broker.fetchers.follow(replica)
        broker.link.answer(row(1))
        await soon(lambda: len(broker.link.requests) > sent)

        assert named(broker.link.requests[sent]) == [(0, 3)]


@simulated
async def test_a_diverging_epoch_without_an_end_is_none() -> None:
    async with host() as broker:
        replica = await broker.following(0, records=2)
        await broker.request(0)
        broker.link.answer(row(0, batch(1, at=2, leader_epoch=EPOCH), diverging_epoch=EpochEndOffset(-1, -1)))

        assert named(await broker.request(1)) == [(0, 3)]
        assert replica.log.end_offset == 3

"""When a replica fetcher sends its requests, how long each may take, and whom it pauses. Time is simulated."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.broker.replicas.fetcher_host import EPOCH, ME, Host, host, named, row, simulated, soon
from tests.log.batches import batch

from qanat.broker.replicas.local_replicas import FollowerReplica
from qanat.cluster.values import PartitionState
from qanat.connection.faults import UnreachableError
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.fetch import EpochEndOffset

FIRST_PAUSE_S = 0.01
REFUSED = ErrorCode.NOT_LEADER_OR_FOLLOWER.value
AT_OUR_END = EpochEndOffset(EPOCH - 1, 1)
"""Of a replica with one record: there is nothing to truncate, which pauses it for 200 ms."""


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def followed_together(broker: Host, count: int, records: int = 0) -> list[FollowerReplica]:
    """So many replicas, all named by the first request."""
    replicas = [await broker.replica(number, records) for number in range(count)]
    for one in replicas:
        broker.fetchers.follow(one)
    await soon(lambda: len(broker.link.requests) == 1)
    assert len(named(broker.link.requests[0])) == count
    return replicas


async def sent(broker: Host, number: int) -> list[tuple[int, int]]:
    """What the request of this number names, once it is sent."""
    await soon(lambda: len(broker.link.requests) > number)
    return named(broker.link.requests[number])


# How long a request may take


@simulated
async def test_a_leader_may_be_silent_for_ten_seconds_beyond_its_wait() -> None:
    async with host(replica_fetch_wait_max_ms=500) as broker:
        await followed_together(broker, 1)

        assert broker.link.deadlines[0] - broker.link.times[0] == pytest.approx(10.5, abs=1e-6)


@pytest.mark.parametrize(("passed_s", "left_ms"), [(0.0501, 150), (0.0999, 101)])
@simulated
async def test_the_leader_may_take_until_a_paused_replica_has_its_turn(passed_s: float, left_ms: int) -> None:
    async with host() as broker:
        await followed_together(broker, 2, records=1)
        broker.link.answer(row(0, diverging_epoch=AT_OUR_END))
        await sent(broker, 1)
        await asyncio.sleep(broker.link.times[1] + passed_s - now_s())
        broker.link.answer(row(1))
        await sent(broker, 2)

        assert broker.link.requests[2].max_wait_ms == left_ms


@simulated
async def test_of_two_paused_replicas_the_first_to_have_its_turn_ends_the_wait() -> None:
    async with host() as broker:
        await followed_together(broker, 3, records=1)
        broker.link.answer(row(0, diverging_epoch=AT_OUR_END), row(1, error_code=REFUSED))
        await sent(broker, 1)

        assert 10 <= broker.link.requests[1].max_wait_ms <= 11


@simulated
async def test_a_replica_that_is_left_shortens_no_wait() -> None:
    async with host(replica_fetch_wait_max_ms=500) as broker:
        paused, _ = await followed_together(broker, 2)
        broker.link.answer(row(0, error_code=REFUSED))
        await sent(broker, 1)
        broker.fetchers.leave(paused.at)
        broker.link.answer(row(1))
        await sent(broker, 2)

        assert broker.link.requests[2].max_wait_ms == 500


# Pauses


@simulated
async def test_a_replica_that_is_followed_again_begins_with_the_shortest_pause() -> None:
    async with host() as broker:
        [replica] = await followed_together(broker, 1)
        for number in (1, 2):
            broker.link.answer(row(0, error_code=REFUSED))
            await sent(broker, number)
        broker.fetchers.leave(replica.at)
        broker.fetchers.follow(replica)
        await sent(broker, 3)
        answered_s = now_s()
        broker.link.answer(row(0, error_code=REFUSED))
        await sent(broker, 4)

        assert broker.link.times[4] == pytest.approx(answered_s + FIRST_PAUSE_S, abs=1e-6)


@simulated
async def test_nothing_is_kept_of_a_replica_that_is_left() -> None:
    async with host() as broker:
        left, _ = await followed_together(broker, 2)
        broker.fetchers.leave(left.at)

        [fetcher] = broker.fetchers._leaders.values()
        assert left.at not in fetcher._behind


@pytest.mark.parametrize("is_damaged", [False, True])
@simulated
async def test_a_paused_replica_has_its_turn_in_time_however_often_others_are_fetched(is_damaged: bool) -> None:
    async with host() as broker:
        waiting, other = await broker.replica(0, 1), await broker.replica(1)
        if is_damaged:
            broker.damaged[waiting.at] = None  # No state says so yet, so it cannot be repaired.
        else:
            waiting.log.is_appending = True  # A worker writes what we took as leader.
        broker.fetchers.follow(other)
        broker.fetchers.follow(waiting)
        began_s = now_s()
        assert await sent(broker, 0) == [(1, 0)]
        for number in (1, 2, 3):
            broker.link.answer(row(1))
            assert await sent(broker, number) == []
        waiting.log.is_appending = False
        broker.states[waiting.at] = PartitionState(
            leader=1, leader_epoch=EPOCH, replicas=(ME, 1), in_sync=(), damaged=(ME,)
        )
        await asyncio.sleep(began_s + FIRST_PAUSE_S + 0.0001 - now_s())
        broker.link.answer(row(1))

        assert await sent(broker, 4) == [(0, 1)]


# New replicas, and those that fall behind


@simulated
async def test_a_response_that_comes_soon_after_a_new_replica_counts() -> None:
    async with host() as broker:
        [replica] = await followed_together(broker, 1)
        await broker.following(1)
        await asyncio.sleep(0.005)
        broker.link.answer(row(0, batch(1, leader_epoch=EPOCH)))

        assert sorted(await sent(broker, 1)) == [(0, 1), (1, 0)]
        assert replica.log.end_offset == 1
        assert broker.link.closed == 0, "the request was not given up"


@simulated
async def test_a_replica_in_sync_that_falls_behind_waits_for_its_throttle_again() -> None:
    async with host() as broker:
        replica, _ = await followed_together(broker, 2)
        broker.link.answer(row(0, batch(1, leader_epoch=EPOCH), high_watermark=1), row(1))
        broker.throttled = {replica.at}
        assert await sent(broker, 1) == [(0, 1)], "it is in sync"
        broker.link.answer(row(0, batch(1, at=1, leader_epoch=EPOCH), high_watermark=9), row(1))

        assert await sent(broker, 2) == []
        assert replica.log.end_offset == 2


@simulated
async def test_a_response_without_records_is_no_work_and_counts_for_no_throttle() -> None:
    async with host() as broker:
        [replica] = await followed_together(broker, 1)
        handled = broker.runtime.requests_handled
        broker.link.answer(row(0, b""))
        await sent(broker, 1)

        assert broker.runtime.requests_handled == handled
        assert broker.happened("received") == []
        assert broker.happened("appended") == [[replica.at, 0]]


# Connections


@simulated
async def test_closing_returns_once_the_connection_is_closed() -> None:
    async with host() as broker:
        await followed_together(broker, 1)
        broker.link.closing_s = 0.01
        await broker.fetchers.close()

        assert broker.link.closed == 1


@simulated
async def test_a_new_connection_begins_a_new_session() -> None:
    async with host() as broker:
        await followed_together(broker, 2)
        broker.link.answer(row(0), row(1))
        await sent(broker, 1)
        assert broker.link.requests[1].session_id == 9
        broker.link.answers.put_nowait(UnreachableError("lost"))

        assert sorted(await sent(broker, 2)) == [(0, 0), (1, 0)]
        assert broker.link.requests[2].session_id == 0


def reached(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged about reaching the leader since the last look."""
    found = [one.getMessage() for one in caplog.records if "reached" in one.getMessage()]
    caplog.clear()
    return found


@simulated
async def test_a_leader_that_cannot_be_reached_is_logged_once_and_once_more_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with host() as broker:
        with caplog.at_level(logging.INFO, "qanat"):
            broker.failures = 3
            await followed_together(broker, 1)
            assert reached(caplog) == ["leader cannot be reached", "leader can be reached again"]
            broker.link.answers.put_nowait(UnreachableError("lost"))
            await sent(broker, 1)
            assert reached(caplog) == [], "the next connection was there at once"
            broker.failures = 2
            broker.link.answers.put_nowait(UnreachableError("lost"))
            await sent(broker, 2)
            assert reached(caplog) == ["leader cannot be reached", "leader can be reached again"]


# Faults of our disk


@pytest.mark.parametrize("is_left", [False, True])
@simulated
async def test_records_that_never_reach_the_disk_pause_their_replica_where_it_is_still_followed(
    is_left: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with host() as broker:
        deleted, other = await followed_together(broker, 2)
        records = batch(1, leader_epoch=EPOCH)
        broker.link.answer(row(0, records), row(1, records))
        await soon(lambda: other.log.end_offset == 1)
        assert deleted.log.flushed_offset == 0
        if is_left:
            broker.fetchers.leave(deleted.at)
        await broker.runtime.delete(deleted.at)

        assert await sent(broker, 1) == [(1, 1)], "the other goes on"
        logged = [one for one in caplog.records if one.getMessage() == "replica cannot follow its leader"]
        assert len(logged) == (0 if is_left else 1)

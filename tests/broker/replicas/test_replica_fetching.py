"""What a replica fetcher asks its leader for, and what it does with the responses. The leader is a script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.broker.replicas.fetcher_host import EPOCH, LEADER, ME, RAW_ID, host, named, row, simulated
from tests.log.batches import batch
from tests.log.directories import until

from qanat.broker.replicas.local_replicas import FollowerReplica
from qanat.connection.faults import UnreachableError
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition


async def test_records_are_on_disk_before_the_next_request_claims_them() -> None:
    async with host() as broker:
        replica = await broker.following()
        first = await broker.request(0)
        assert first.replica_state is not None
        assert (first.replica_state.replica_id, first.replica_state.replica_epoch) == (ME, 77)
        assert (first.min_bytes, first.max_bytes) == (1, broker.settings.replica_fetch_response_max_bytes)
        assert named(first) == [(0, 0)]
        content = batch(2, leader_epoch=EPOCH)
        handled = broker.runtime.requests_handled
        broker.link.answer(row(records=content, high_watermark=1, log_start_offset=1))
        second = await broker.request(1)

        log = replica.log
        assert (log.flushed_offset, log.end_offset, log.high_watermark, log.log_start_offset) == (2, 2, 1, 1)
        assert named(second) == [(0, 2)]
        assert broker.counters.replicated_bytes == len(content)
        assert broker.runtime.requests_handled == handled + 1
        assert broker.happened("appended") == [[replica.at, len(content)]]
        assert broker.happened("received") == [[replica.at, len(content)]], "it was behind until now"


async def test_the_leaders_bounds_count_as_far_as_the_replica_reaches() -> None:
    async with host() as broker:
        replica = await broker.following(records=2)
        await broker.request(0)
        broker.link.answer(row(high_watermark=5, log_start_offset=3))
        await broker.request(1)
        assert (replica.log.high_watermark, replica.log.log_start_offset) == (2, 0), "it has no record of offset 3"
        broker.link.answer(row(high_watermark=2, log_start_offset=2))
        await broker.request(2)

        assert replica.log.log_start_offset == 2
        assert broker.happened("appended") == [[replica.at, 0]] * 2


async def test_a_replica_that_catches_up_waits_for_its_throttle_and_one_in_sync_does_not() -> None:
    async with host() as broker:
        behind, in_sync = await broker.following(0), await broker.replica(1)
        await broker.request(0)
        broker.throttled = {behind.at, in_sync.at}
        broker.link.answer(row(records=batch(1, leader_epoch=EPOCH), high_watermark=9))
        broker.fetchers.follow(in_sync)
        await asyncio.sleep(0.05)
        assert len(broker.link.requests) == 1, "both are new, so neither is known to be in sync"
        broker.throttled = {behind.at}
        second = await broker.request(1)
        assert named(second) == [(1, 0)]
        broker.link.answer(row(1, batch(1, leader_epoch=EPOCH), high_watermark=1))
        broker.throttled = {behind.at, in_sync.at}
        assert named(await broker.request(2)) == [(1, 1)]
        assert broker.happened("received") == [[one.at, len(batch(1))] for one in (behind, in_sync)]


@pytest.mark.parametrize(
    ("count", "share"), [(1, 100), (1, 2 * 1024 * 1024), (40, 64 * 1024), (4, 512 * 1024), (32, 64 * 1024), (31, 67650)]
)
async def test_replicas_that_catch_up_share_what_is_left_for_them_beside_those_in_sync(count: int, share: int) -> None:
    async with host(replica_fetch_max_bytes=100 if share == 100 else 10_000_000) as broker:
        replica = await broker.following(0)
        fetcher = broker.fetchers._leaders[LEADER]
        replicas = {TopicPartition("t", number): replica for number in range(count + 1)}
        fetcher._behind = dict.fromkeys(list(replicas)[1:])
        most = fetcher._at_once(replicas)

        assert most(TopicPartition("t", 1)) == share
        assert most(TopicPartition("t", 0)) == broker.settings.replica_fetch_max_bytes
        fetcher._behind = dict.fromkeys(replicas)
        assert fetcher._at_once(replicas)(TopicPartition("t", 1)) == broker.settings.replica_fetch_max_bytes, "all do"


@pytest.mark.parametrize(
    ("is_idle", "usual_ms", "lag_ms", "longest_ms"),
    [(False, 500, 30_000, 500), (True, 500, 30_000, 2000), (True, 500, 4_000, 1000), (True, 500, 1_000, 500)],
)
async def test_a_leader_may_take_longer_where_nothing_is_new_but_not_so_long_that_we_seem_to_lag(
    is_idle: bool, usual_ms: int, lag_ms: int, longest_ms: int
) -> None:
    async with host(replica_fetch_wait_max_ms=usual_ms, replica_lag_time_max_ms=lag_ms) as broker:
        await broker.following()
        assert (await broker.request(0)).max_wait_ms == usual_ms
        broker.link.answer(*([] if is_idle else [row()]))

        assert (await broker.request(1)).max_wait_ms == longest_ms


async def test_an_error_pauses_its_partition_longer_and_longer_and_delays_no_other() -> None:
    async with host() as broker:
        paused = (await broker.following(0)).at
        await broker.request(0)
        fetcher = broker.fetchers._leaders[LEADER]
        loop = asyncio.get_running_loop()
        seen: list[float] = []
        for number in range(1, 8):
            before = loop.time()
            broker.link.answer(row(0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER.value))
            await until(lambda: paused in fetcher._paused)
            seen.append(fetcher._pauses_s[paused])
            pause_s = fetcher._paused[paused] - before
            assert pause_s > min(seen[-1] / 2, 0.2) - 0.001
            if pause_s > 0.2:
                assert fetcher._paused[paused] * 20 == pytest.approx(round(fetcher._paused[paused] * 20)), "in turns"
            await broker.request(number)
            assert loop.time() >= before + min(seen[-1] / 2, 0.2) - 0.001
        assert seen == [0.02, 0.04, 0.08, 0.16, 0.2, 0.2, 0.2]
        broker.link.answer(row())
        await broker.request(8)

        assert not fetcher._pauses_s, "the next error is the first again"


async def test_a_paused_partition_shortens_the_wait_for_the_others() -> None:
    async with host(replica_fetch_wait_max_ms=5_000) as broker:
        await broker.following(0)
        await broker.request(0)
        await broker.following(1)
        broker.link.answer(row(0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER.value))
        second = await broker.request(1)

        assert named(second) == [(1, 0)]
        assert second.max_wait_ms <= 10


async def test_a_new_replica_does_not_wait_for_a_pending_request() -> None:
    async with host() as broker:
        await broker.following(0)
        await broker.request(0)
        await broker.following(1)
        second = await broker.request(1)

        assert sorted(named(second)) == [(0, 0), (1, 0)]
        assert broker.link.closed == 2, "the connection is another: its answer would be taken for the next"
        assert second.session_id == second.session_epoch == 0


@pytest.mark.parametrize(
    ("error", "is_paused"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, False),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, True),
    ],
)
@simulated
async def test_a_lost_session_is_begun_again_at_once_and_other_errors_after_a_pause(
    error: ErrorCode, is_paused: bool
) -> None:
    async with host() as broker:
        replica = await broker.following(0)
        await broker.request(0)
        broker.link.answer(row(records=batch(1, leader_epoch=EPOCH)), error=error)
        began = asyncio.get_running_loop().time()
        second = await broker.request(1)
        took_s = asyncio.get_running_loop().time() - began

        assert (second.session_id, named(second)) == (0, [(0, 0)])
        assert replica.log.end_offset == 0, "a response with an error has no records"
        assert took_s >= 0.2 if is_paused else took_s < 0.2


async def test_a_leader_that_cannot_be_reached_is_reported_and_tried_again_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    sleep = asyncio.sleep

    async def note_sleep(delay_s: float) -> None:
        slept.append(delay_s)
        await sleep(0)

    async with host() as broker:
        broker.failures = 7
        monkeypatch.setattr(asyncio, "sleep", note_sleep)
        await broker.following(0)
        await until_plain(lambda: len(broker.link.requests) == 1, sleep)
        assert [one for one in slept if one > 0.01] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
        assert broker.unreachable == [LEADER] * 7
        slept.clear()
        broker.failures = 1
        broker.link.answers.put_nowait(UnreachableError("lost"))
        await until_plain(lambda: len(broker.link.requests) == 2, sleep)

        assert [one for one in slept if one > 0.01] == [0.05], "the first pause is short again"
        assert broker.link.closed == 1
        monkeypatch.setattr(asyncio, "sleep", sleep)


async def until_plain(condition: Callable[[], bool], sleep: Callable[[float], Any]) -> None:
    for _ in range(60_000):
        if condition():
            return
        await sleep(0.001)
    raise AssertionError("not in time")


async def test_a_response_counts_only_for_a_replica_that_is_followed_as_it_was() -> None:
    async with host() as broker:
        before = await broker.following(0)
        await broker.request(0)
        other = FollowerReplica(before.at, RAW_ID, before.log, LEADER, EPOCH + 1)
        broker.fetchers.follow(other)
        broker.link.answer(row(records=batch(1, leader_epoch=EPOCH)))
        await broker.request(1)
        assert before.log.end_offset == 0

        broker.link.answer(row(1, records=batch(1, leader_epoch=EPOCH + 1)), row(records=batch(1, leader_epoch=EPOCH)))
        await broker.request(2)
        assert before.log.end_offset == 1, "a row of an unknown partition changes nothing"


async def test_following_again_changes_nothing_and_leaving_stops() -> None:
    async with host() as broker:
        replica = await broker.following(0)
        await broker.request(0)
        retired = len(broker.happened("retire"))
        broker.fetchers.follow(replica)
        assert len(broker.happened("retire")) == retired
        broker.fetchers.leave(replica.at)
        assert broker.happened("retire")[retired:] == [[replica.at]]
        assert broker.fetchers.replicas == {}
        broker.link.answer(row(records=batch(1, leader_epoch=EPOCH)))
        await until(lambda: broker.link.closed == 1)
        assert replica.log.end_offset == 0
        broker.fetchers.follow(replica)
        await broker.request(1)
        await broker.fetchers.close()
        other = await broker.replica(1)
        broker.fetchers.follow(other)

        assert other.at not in broker.fetchers.replicas, "it is closed"


@pytest.mark.parametrize("leader", [-1, ME])
async def test_a_replica_without_another_leader_is_known_and_not_fetched(leader: int) -> None:
    async with host() as broker:
        replica = await broker.replica(0)
        alone = FollowerReplica(replica.at, RAW_ID, replica.log, leader, EPOCH)
        broker.fetchers.follow(alone)

        assert broker.fetchers.replicas == {replica.at: alone}
        assert broker.fetchers._leaders == {}


async def test_a_replica_is_not_fetched_before_all_of_it_is_on_disk() -> None:
    async with host() as broker:
        replica = await broker.replica(0)
        broker.runtime.append_own(replica.log, batch(1), EPOCH - 1)
        assert replica.log.flushed_offset == 0
        broker.fetchers.follow(replica)

        assert named(await broker.request(0)) == [(0, 1)]
        assert replica.log.flushed_offset == 1

"""Lanes: order per key, no commit past an unfinished record, nothing lost, bounded memory."""

from __future__ import annotations

import sys
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.client.app.lanes import Lanes, Order, Work
from qanat.model.ids import TopicPartition


class Row(NamedTuple):
    """A record as lanes see it."""

    partition: int
    offset: int
    key: bytes | None = None
    topic: str = "orders"


P0 = TopicPartition("orders", 0)


def assigned(lanes: Lanes[Row]) -> Lanes[Row]:
    lanes.assign([P0, TopicPartition("orders", 1)])
    return lanes


def rows(n: int, key: bytes | None = None, start: int = 0) -> list[Row]:
    return [Row(0, start + i, key) for i in range(n)]


def taken(lanes: Lanes[Row]) -> list[Work[Row]]:
    found = []
    while (work := lanes.take()) is not None:
        found.append(work)
    return found


def test_records_of_a_key_run_one_after_another() -> None:
    lanes = assigned(Lanes("key", 8))
    lanes.admit([Row(0, 0, b"a"), Row(0, 1, b"b"), Row(0, 2, b"a")])
    first = taken(lanes)
    assert [work.record.offset for work in first] == [0, 1]
    lanes.finish(first[0])
    assert [work.record.offset for work in taken(lanes)] == [2]


def test_null_keys_under_order_by_key_spread_over_all_slots() -> None:
    lanes = assigned(Lanes("key", 8))
    lanes.admit(rows(20))
    assert len(taken(lanes)) == 8


def test_order_by_partition_runs_one_record_of_each_partition() -> None:
    lanes = assigned(Lanes("partition", 8))
    lanes.admit([Row(0, 0), Row(0, 1), Row(1, 0), Row(1, 1)])
    assert [(work.record.partition, work.record.offset) for work in taken(lanes)] == [(0, 0), (1, 0)]


def test_without_order_records_of_one_key_run_side_by_side() -> None:
    lanes = assigned(Lanes("none", 8))
    lanes.admit(rows(5, b"a"))
    assert len(taken(lanes)) == 5


def test_a_retry_blocks_its_key_only_and_gives_up_its_slot() -> None:
    lanes = assigned(Lanes("key", 1))
    lanes.admit([Row(0, 0, b"a"), Row(0, 1, b"a"), Row(0, 2, b"b")])
    work = lanes.take()
    assert work is not None
    lanes.retry(work, due_s=10.0)
    other = lanes.take()
    assert other is not None
    assert other.record.offset == 2
    lanes.finish(other)
    assert lanes.take() is None
    assert lanes.wake(9.0) == 10.0
    assert lanes.committable() == {P0: 0}
    assert lanes.wake(10.0) is None
    again = lanes.take()
    assert again is work
    assert again.attempt == 2
    lanes.finish(again)
    assert [one.record.offset for one in taken(lanes)] == [1]


def test_one_stuck_record_and_a_million_behind_it_cost_bounded_memory() -> None:
    lanes = assigned(Lanes("key", 64, ahead_max=2_000_000))
    lanes.admit([Row(0, 0, b"stuck")])
    stuck = lanes.take()
    assert stuck is not None
    blocks = sys.getallocatedblocks()
    for start in range(1, 1_000_001, 1000):
        lanes.admit(rows(1000, start=start))
        while (work := lanes.take()) is not None:
            lanes.finish(work)
    assert lanes.committable() == {P0: 0}
    assert sys.getallocatedblocks() - blocks < 10_000
    lanes.finish(stuck)
    assert lanes.committable() == {P0: 1_000_001}


def test_others_go_on_behind_a_stuck_record_up_to_the_stated_limit() -> None:
    lanes = assigned(Lanes("key", 4, ahead_max=100))
    lanes.admit([Row(0, 0, b"stuck"), Row(1, 0, b"x")])
    stuck = lanes.take()
    assert stuck is not None
    for start in range(1, 100, 11):
        assert lanes.throttle() == ([], [])
        lanes.admit(rows(11, start=start))
        for work in taken(lanes):
            lanes.finish(work)
        while (next_work := lanes.take()) is not None:
            lanes.finish(next_work)
    assert lanes.throttle() == ([P0], []), "only the partition of the stuck record is paused"
    lanes.finish(stuck)
    assert lanes.throttle() == ([], [P0])


def test_no_room_is_left_where_as_many_records_as_allowed_are_held() -> None:
    lanes = assigned(Lanes("key", 2, held_max=10))
    lanes.admit(rows(7))
    assert lanes.room == 3
    for work in taken(lanes):
        lanes.finish(work)
    assert lanes.room == 5


def test_what_is_revoked_no_longer_counts_but_its_slot_comes_back() -> None:
    lanes = assigned(Lanes("key", 1))
    lanes.admit([*rows(3), Row(1, 0)])
    work = lanes.take()
    assert work is not None
    lanes.withhold([P0])
    assert lanes.running_in([P0]) == 1
    assert lanes.take() is None
    lanes.revoke([P0])
    assert lanes.held == 1
    assert work.is_revoked
    lanes.finish(work)
    assert lanes.committable() == {TopicPartition("orders", 1): 0}
    other = lanes.take()
    assert other is not None
    assert other.record.partition == 1


def test_a_withheld_partition_commits_what_finished_and_nothing_past_what_never_began() -> None:
    lanes = assigned(Lanes("partition", 1))
    lanes.admit(rows(3))
    work = lanes.take()
    assert work is not None
    lanes.withhold([P0])
    lanes.finish(work)
    assert lanes.take() is None
    assert lanes.committable() == {P0: 1}


def test_a_failure_in_a_withheld_partition_is_not_tried_again_here() -> None:
    lanes = assigned(Lanes("key", 1))
    lanes.admit(rows(1))
    work = lanes.take()
    assert work is not None
    lanes.withhold([P0])
    lanes.retry(work, due_s=1.0)
    assert lanes.wake(2.0) is None
    assert lanes.take() is None
    assert lanes.committable() == {P0: 0}


def test_results_are_committed_in_the_order_of_offsets_and_once() -> None:
    lanes = assigned(Lanes("none", 3))
    lanes.admit(rows(3))
    for work in reversed(taken(lanes)):
        assert lanes.results(lanes.committable().items()) == []
        work.result = work.record.offset
        lanes.finish(work)
    offsets = lanes.committable()
    assert lanes.results(offsets.items()) == [0, 1, 2]
    lanes.committed(offsets.items())
    assert lanes.committable() == {}
    assert lanes.results(offsets.items()) == []


def test_records_of_partitions_that_are_not_ours_and_records_read_before_are_ignored() -> None:
    lanes = assigned(Lanes("key", 8))
    lanes.admit([Row(7, 0), *rows(2)])
    lanes.admit(rows(3))
    assert [work.record.offset for work in taken(lanes)] == [0, 1, 2]
    assert lanes.held == 3


def test_a_commit_past_an_unfinished_record_is_a_bug() -> None:
    lanes = assigned(Lanes("key", 1))
    lanes.admit(rows(2))
    assert lanes.committable() == {P0: 0}
    with pytest.raises(AssertionError, match="unfinished"):
        lanes.committed([(P0, 1)])


@given(
    seed=st.integers(0, 2**32),
    order=st.sampled_from(["key", "partition", "none"]),
    concurrency=st.integers(1, 5),
    n=st.integers(1, 60),
)
def test_order_is_kept_nothing_is_lost_and_no_commit_passes_unfinished_work(
    seed: int, order: Order, concurrency: int, n: int
) -> None:
    """A random history of arrivals, finishes, retries and revocations; partitions are read again from their commit."""
    random = Random(seed)
    source = {p: [Row(p, i, random.choice([None, b"a", b"b"])) for i in range(n)] for p in (0, 1)}
    lanes = assigned(Lanes(order, concurrency, held_max=20, ahead_max=30))
    position, committed, now = {0: 0, 1: 0}, {0: 0, 1: 0}, 0.0
    done: dict[int, set[int]] = {0: set(), 1: set()}
    running: list[Work[Row]] = []
    paused: set[int] = set()
    for _ in range(5000):
        if all(committed[p] == n for p in source):
            break
        now += 1.0
        act = random.randrange(6 if random.random() < 0.97 else 7)
        if act == 0:
            p = random.choice(list(source))
            take = source[p][position[p] : position[p] + min(lanes.room, 7)] if p not in paused else []
            position[p] += len(take)
            lanes.admit(take)
        elif act in (1, 2) and (work := lanes.take()) is not None:
            check_lane(work, running, order)
            running.append(work)
        elif act in (3, 4) and running:
            work = running.pop(random.randrange(len(running)))
            if random.random() < 0.2:
                lanes.retry(work, now + random.randrange(5))
            else:
                if not work.is_revoked:
                    done[work.record.partition].add(work.record.offset)
                lanes.finish(work)
        elif act == 5:
            pause, resume = lanes.throttle()
            paused = (paused | {at.partition for at in pause}) - {at.partition for at in resume}
            for at, offset in lanes.committable().items():
                assert set(range(offset)) <= done[at.partition], "committed past an unfinished record"
                assert offset >= committed[at.partition], "a commit retreats"
                committed[at.partition] = offset
                lanes.committed([(at, offset)])
        elif act == 6:
            at = TopicPartition("orders", random.choice([0, 1]))
            lanes.revoke([at])
            lanes.assign([at])
            position[at.partition] = committed[at.partition]
            paused.discard(at.partition)
        lanes.wake(now)
        assert len(running) == lanes.running <= concurrency
        assert 0 <= lanes.held <= 20
    assert committed == {0: n, 1: n}, "a record is lost"


def check_lane(work: Work[Row], running: list[Work[Row]], order: Order) -> None:
    for other in running:
        if other.is_revoked or other.record.partition != work.record.partition:
            continue
        assert order != "partition", "two records of a partition run side by side"
        assert order != "key" or work.record.key is None or other.record.key != work.record.key, "two of one key"
    if order == "partition":
        assert work.record.offset == work.place.tracker.committable


def test_a_commit_of_a_partition_that_was_lost_and_assigned_again_meanwhile_counts_for_nothing() -> None:
    lanes = assigned(Lanes("key", 8))
    lanes.admit(rows(3))
    for work in taken(lanes):
        lanes.finish(work)
    offsets = lanes.committable()
    assert offsets == {P0: 3}
    lanes.revoke([P0])
    lanes.assign([P0])
    lanes.committed(offsets.items())
    lanes.admit(rows(1))
    lanes.finish(taken(lanes)[0])
    assert lanes.committable() == {P0: 1}


# Partitions that are held back


def test_a_held_back_partition_begins_nothing_and_goes_on_with_the_record_that_failed() -> None:
    lanes = assigned(Lanes("key", 2))
    lanes.admit([*rows(5), Row(1, 0), Row(1, 1)])
    first, second = taken(lanes)
    lanes.hold_back(second)
    lanes.finish(first)
    assert [(one.record.partition, one.record.offset) for one in taken(lanes)] == [(1, 0), (1, 1)]
    assert lanes.committable() == {P0: 1, TopicPartition("orders", 1): 0}
    assert lanes.throttle() == ([P0], [])
    assert lanes.release() == [P0]
    assert lanes.throttle() == ([], [P0])
    lanes.running = 0
    assert [one.record.offset for one in taken(lanes)] == [1, 2]


def test_records_that_are_held_back_leave_room_for_those_of_other_partitions() -> None:
    lanes = assigned(Lanes("none", 1, held_max=10))
    lanes.admit(rows(10))
    (work,) = taken(lanes)
    assert lanes.room == 0
    lanes.hold_back(work)
    assert lanes.take() is None
    assert lanes.room == 10
    lanes.admit([Row(1, offset) for offset in range(10)])
    assert lanes.room == 0
    lanes.revoke([P0])
    assert (lanes.room, lanes.held) == (0, 10)
    assert lanes.release() == []


def test_a_retry_that_is_due_behind_a_held_back_record_waits_as_well() -> None:
    lanes = assigned(Lanes("none", 2))
    lanes.admit(rows(2))
    first, second = taken(lanes)
    lanes.retry(first, 5.0)
    lanes.hold_back(second)
    lanes.wake(5.0)
    assert lanes.take() is None
    lanes.release()
    assert sorted(one.record.offset for one in taken(lanes)) == [0, 1]

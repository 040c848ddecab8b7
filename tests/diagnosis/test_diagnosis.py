"""What limits a cluster, from the figures of two readings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.diagnosis.readings import HEALTHY, SECONDS, START, causes, cluster, diagnosis

from qanat.diagnosis.diagnosis import judge
from qanat.diagnosis.readings import (
    ApiReading,
    BrokerReading,
    GroupReading,
    PartitionReading,
    TimedReading,
    WaitReading,
)
from qanat.diagnosis.time_split import TimeSplit

SLOW_DISK = replace(
    HEALTHY,
    waits=WaitReading(disk=40.0),
    flushes=TimedReading(300, 10.2),
    apis={"PRODUCE": ApiReading(400, 42.0, 0.1, 400_000, 20_000)},
)
FULL = replace(HEALTHY, loop_cpu_s=59.5, late=TimedReading(1150, 3.0))
TINY = {"PRODUCE": ApiReading(60_000, 100.0, 7.0, 12_000_000, 5_000_000)}


def hot(share: float, of: int = 6) -> list[PartitionReading]:
    rest = (1 - share) / (of - 1)
    sizes = [share, *([rest] * (of - 1))]
    return [PartitionReading("orders", number, of, int(1e7 * size), 100) for number, size in enumerate(sizes)]


def test_a_healthy_cluster_has_no_finding() -> None:
    found = diagnosis(HEALTHY, HEALTHY, HEALTHY)

    assert causes(found) == []
    assert (found.seconds, round(found.requests_per_s)) == (SECONDS, 900)
    assert [one.node_id for one in found.brokers] == [1, 2, 3]


@pytest.mark.parametrize(
    ("broker", "expected"),
    [
        (SLOW_DISK, ("slow_disk", "broker 1")),
        (replace(SLOW_DISK, flushes=START.flushes), ("slow_disk", "broker 1")),
        (FULL, ("full_loop", "broker 1")),
        (replace(FULL, apis=TINY), ("tiny_batches", "broker 1")),
        (replace(FULL, partitions=hot(0.9)), ("hot_partition", "orders:0")),
        (
            replace(HEALTHY, loop_starved_s=8.0, late=TimedReading(1100, 9.0)),
            ("busy_machine", "broker 1"),
        ),
        (
            replace(HEALTHY, waits=WaitReading(paused=25.0), paused_clients={"etl": 25.0}),
            ("throttled_clients", "broker 1"),
        ),
        (replace(HEALTHY, waits=WaitReading(cold_reads=9.0), cold_reads=800), ("cold_reads", "broker 1")),
        (replace(HEALTHY, waits=WaitReading(store=6.0), commits=TimedReading(13, 6.0)), ("slow_store", "broker 1")),
        (replace(HEALTHY, waits=WaitReading(store=6.0), commits=START.commits), ("slow_store", "broker 1")),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_limits_a_broker_is_named_and_nothing_else(broker: BrokerReading, expected: tuple[str, str]) -> None:
    found = diagnosis(broker)

    assert causes(found) == [expected]
    (finding,) = found.findings
    assert any(char.isdigit() for char in "".join(finding.evidence))
    assert finding.remedy
    assert not finding.remedy.endswith(".")


def test_one_slow_change_of_metadata_is_no_finding() -> None:
    broker = replace(HEALTHY, waits=WaitReading(store=0.4), commits=TimedReading(4, 0.45))

    assert causes(diagnosis(broker)) == []


def test_a_follower_that_others_wait_for_is_named() -> None:
    leader = replace(
        HEALTHY,
        waits=WaitReading(disk=1.0, followers=60.0),
        behind={3: 55.0, 2: 2.0},
        apis={"PRODUCE": ApiReading(500, 63.0, 0.1, 500_000, 20_000)},
    )

    assert causes(diagnosis(leader, HEALTHY, HEALTHY)) == [("slow_follower", "broker 3")]


def test_a_follower_whose_disk_is_slow_is_named_for_its_disk() -> None:
    leader = replace(
        HEALTHY,
        waits=WaitReading(followers=60.0),
        behind={2: 58.0},
        apis={"PRODUCE": ApiReading(500, 63.0, 0.1, 500_000, 20_000)},
    )
    follower = replace(HEALTHY, waits=WaitReading(), flushes=TimedReading(250, 10.2))

    assert causes(diagnosis(leader, follower)) == [("slow_disk", "broker 2")]


def test_followers_that_are_slow_together_are_not_blamed_one_by_one() -> None:
    leader = replace(HEALTHY, waits=WaitReading(followers=60.0), behind={2: 20.0, 3: 20.0})

    assert causes(diagnosis(leader, HEALTHY, HEALTHY)) == []


def test_leaders_on_one_broker_are_named_where_they_work() -> None:
    top = replace(HEALTHY, partitions=[PartitionReading("orders", number, 12, 900_000, 9) for number in range(12)])
    idle = replace(HEALTHY, partitions=[])

    assert causes(diagnosis(top, idle, idle)) == [("unbalanced_leaders", "broker 1")]
    resting = replace(top, partitions=[replace(one, bytes=40) for one in top.partitions])
    assert causes(diagnosis(resting, idle, idle)) == []


def test_two_brokers_are_unbalanced_when_one_has_nearly_all() -> None:
    rows = [PartitionReading("orders", number, 10, 900_000, 9) for number in range(10)]

    assert causes(diagnosis(replace(HEALTHY, partitions=rows[:6]), replace(HEALTHY, partitions=rows[6:]))) == []
    assert causes(diagnosis(replace(HEALTHY, partitions=rows), replace(HEALTHY, partitions=[]))) == [
        ("unbalanced_leaders", "broker 1")
    ]


@pytest.mark.parametrize(
    ("before", "after", "is_named"),
    [
        (GroupReading("g", "ok", 100, 1.0), GroupReading("g", "warn", 5_000, 9.0), True),
        (GroupReading("g", "warn", 5_000, 60.0), GroupReading("g", "warn", 4_000, 70.0), False),
        (GroupReading("g", "warn", 5_000, 60.0), GroupReading("g", "warn", 5_500, 61.0), False),
        (GroupReading("g", "ok", 0, 0.0), GroupReading("g", "ok", 400, 1.0), False),
        (GroupReading("g", "stopped", 50, 300.0), GroupReading("g", "stopped", 90, 310.0), True),
        (GroupReading("g", "stopped", 50, 300.0), GroupReading("g", "stopped", 50, 310.0), False),
    ],
    ids=("falls behind", "catches up", "nearly keeps up", "a moment", "stopped and written to", "stopped and quiet"),
)
def test_a_group_is_named_where_it_falls_behind(before: GroupReading, after: GroupReading, is_named: bool) -> None:
    found = diagnosis(replace(HEALTHY, groups=[after]), before={"groups": [before]})

    assert causes(found) == [("lagging_group", "group g")] * is_named


def test_what_costs_most_comes_first() -> None:
    groups = {"groups": [GroupReading("g", "ok", 0, 0.0)]}
    broker = replace(SLOW_DISK, groups=[GroupReading("g", "warn", 9_000, 10.0)])

    assert [one.cause for one in diagnosis(broker, before=groups).findings] == ["slow_disk", "lagging_group"]


def test_clients_held_back_by_a_slow_disk_are_not_a_finding_of_their_own() -> None:
    assert causes(diagnosis(replace(SLOW_DISK, waits=WaitReading(disk=60.0, paused=20.0)))) == [
        ("slow_disk", "broker 1")
    ]


def test_a_busy_loop_of_sensible_batches_on_even_partitions_is_only_full() -> None:
    assert causes(diagnosis(replace(FULL, partitions=hot(1 / 6)))) == [("full_loop", "broker 1")]
    assert causes(diagnosis(replace(FULL, partitions=[PartitionReading("one", 0, 1, 10**8, 9)]))) == [
        ("full_loop", "broker 1")
    ]


def test_tiny_batches_that_fill_nothing_are_not_named() -> None:
    assert causes(diagnosis(replace(HEALTHY, apis=TINY))) == []


def test_time_is_split_by_cause_and_adds_up() -> None:
    broker = replace(
        HEALTHY,
        waits=WaitReading(disk=3.0, followers=1.0, cold_reads=2.0, store=0.5, paused=0.25),
        apis={
            "PRODUCE": ApiReading(100, 6.0, 1.0, 1, 1),
            "FETCH": ApiReading(100, 9.0, 0.5, 1, 1),
            "CREATE_TOPICS": ApiReading(1, 0.6, 0.1, 1, 1),
        },
    )
    split = diagnosis(broker).split

    assert split == TimeSplit(
        queue=split.queue, loop=1.6, disk=3.0, replication=1.0, throttle=0.25, cold_read=2.0, store=0.5, other=1.0,
        client=6.5,
    )  # fmt: skip
    assert split.queue == pytest.approx(0.1 / 200 * 201)
    assert split.busy == pytest.approx(sum([split.queue, 1.6, 3.0, 1.0, 0.25, 2.0, 0.5, 1.0]))


def test_a_broker_that_restarted_or_is_new_is_not_compared() -> None:
    before, after = cluster(START, START), cluster(HEALTHY, replace(SLOW_DISK, since_s=7.0), HEALTHY)
    found = judge(before, after, [1, 2, 3, 4])

    assert ([one.node_id for one in found.brokers], found.silent) == ([1], [2, 3, 4])
    assert causes(found) == []


def test_the_same_reading_twice_says_nothing() -> None:
    found = judge(cluster(HEALTHY), cluster(HEALTHY))

    assert (found.seconds, found.brokers, found.findings, found.silent) == (0.0, [], [], [1])


_COUNT = st.integers(0, 10**9)
_SECONDS = st.floats(0, 1e6, allow_nan=False)
_READING = st.builds(
    BrokerReading,
    node_id=st.just(1),
    since_s=st.just(0.0),
    at_s=_SECONDS,
    loop_cpu_s=_SECONDS,
    loop_starved_s=_SECONDS,
    late=st.builds(TimedReading, _COUNT, _SECONDS),
    waits=st.builds(WaitReading, _SECONDS, _SECONDS, _SECONDS, _SECONDS, _SECONDS),
    flushes=st.builds(TimedReading, _COUNT, _SECONDS),
    cold_reads=_COUNT,
    commits=st.builds(TimedReading, _COUNT, _SECONDS),
    apis=st.dictionaries(
        st.sampled_from(["PRODUCE", "FETCH", "METADATA"]),
        st.builds(ApiReading, _COUNT, _SECONDS, _SECONDS, _COUNT, _COUNT),
    ),
    written_records=_COUNT,
    partitions=st.lists(
        st.builds(PartitionReading, st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 4), _COUNT, _COUNT),
        max_size=5,
    ),
    behind=st.dictionaries(st.integers(1, 3), _SECONDS),
    paused_clients=st.dictionaries(st.text(max_size=3), _SECONDS),
    groups=st.lists(st.builds(GroupReading, st.sampled_from("gh"), st.just("ok"), _COUNT, _SECONDS), max_size=3),
)


@given(before=_READING, after=_READING)
def test_any_two_readings_are_judged(before: BrokerReading, after: BrokerReading) -> None:
    """Also those of a broker whose counters went back: leaderships move, and lag falls."""
    found = judge({1: before}, {1: after, 2: replace(after, node_id=2)}, [1, 2])

    assert all(seconds >= 0 for seconds in (found.split.busy, found.split.client, found.seconds))
    assert found.silent[-1] == 2

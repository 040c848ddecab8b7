"""Metrics of very many partitions: counted in pieces, and only what exists."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from qanat.cluster.values import NO_LEADER
from qanat.servers.metrics import observed, replica_families
from qanat.servers.metrics.observed import AT_ONCE, Observed, summed
from qanat.telemetry.exposition import Sample


def seen(**parts: Any) -> Observed:
    return cast("Observed", SimpleNamespace(**parts))


@pytest.mark.parametrize(("count", "breaths"), [(0, 0), (AT_ONCE - 1, 0), (AT_ONCE, 1), (3 * AT_ONCE + 1, 3)])
def test_a_sum_is_made_in_pieces(count: int, breaths: int) -> None:
    family = summed("m", "What it is.", lambda _: list(range(count)), lambda _: 2)

    lines = list(family.lines(seen()))

    assert lines.count("") == breaths
    (found,) = text_string_to_metric_families("".join(lines))
    assert [one.value for one in found.samples] == [2 * count]


def test_logs_are_summed_by_topic_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed, "AT_ONCE", 2)
    logs = [SimpleNamespace(topic_partition=SimpleNamespace(topic=topic), size=5) for topic in "abaab"]
    broker = SimpleNamespace(settings=SimpleNamespace(metrics_per_partition=False))
    family = observed.per_log("m", "What it is.", lambda log: log.size)

    assert list(family.collect(seen(logs=logs, broker=broker))) == [
        None,
        None,
        Sample({"topic": "a"}, 15),
        Sample({"topic": "b"}, 10),
    ]


@pytest.mark.parametrize(("is_controller", "expected"), [(True, 2), (False, 0)])
def test_the_controller_counts_partitions_without_a_leader_of_topics_that_exist(
    is_controller: bool, expected: int
) -> None:
    states = {("id-a", 0): NO_LEADER, ("id-a", 1): 1, ("id-b", 3): NO_LEADER, ("id-deleted", 0): NO_LEADER}
    image = SimpleNamespace(
        topics={"a": SimpleNamespace(topic_id="id-a"), "b": SimpleNamespace(topic_id="id-b")},
        partition_states={at: SimpleNamespace(leader=leader) for at, leader in states.items()},
    )
    broker = SimpleNamespace(
        controller_loop=SimpleNamespace(is_controller=is_controller), metadata=SimpleNamespace(image=image)
    )

    assert replica_families._leaderless(seen(broker=broker)) == expected


def test_the_slowest_follower_of_any_partition_counts() -> None:
    def partition(end: int, held: dict[int, int]) -> SimpleNamespace:
        leader = SimpleNamespace(replicas=(0, *held), held_by=lambda node_id: (0, held[node_id]))
        return SimpleNamespace(leader=leader, log=SimpleNamespace(end_offset=end))

    partitions = [partition(10, {1: 10, 2: 7}), SimpleNamespace(leader=None), partition(100, {1: -1, 2: 96})]
    found = replica_families._follower_lag(seen(broker=SimpleNamespace(node_id=0), partitions=partitions))

    assert list(found) == [Sample({}, 4)]

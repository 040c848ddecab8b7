"""Damaged replicas and waiting elections in `qanat cluster status`."""

from __future__ import annotations

import pytest

from qanat.app.cluster.cluster_view import PartitionView
from qanat.app.cluster.replica_faults import Faults, FaultyReplica, Waiting
from qanat.cluster.election_waits import format_ranges


def _partition(leader: int, in_sync: tuple[int, ...] = (1,)) -> PartitionView:
    return PartitionView("orders", 0, leader, (0, 1, 2), in_sync)


@pytest.mark.parametrize(
    ("partition", "ranges", "expected"),
    [
        (_partition(1), ((4, 5),), "repaired from broker 1"),
        (_partition(1), (), "repaired from broker 1"),
        (_partition(0, (0, 1)), ((4, 5),), "hands over to another replica"),
        (_partition(0, (0,)), ((4, 5),), "serves the rest; waits for an operator"),
        (_partition(0, (0,)), (), "waits for an operator"),
    ],
)
def test_the_outlook_of_a_replica_is_shown(
    partition: PartitionView, ranges: tuple[tuple[int, int]], expected: str
) -> None:
    assert Faults().outlook(FaultyReplica(partition, 0, ranges, "")) == expected


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        (Waiting(_partition(-1), (), (), None), "waits for an operator"),
        (Waiting(_partition(-1), (0, 1), (), 12_000), "waits for proofs of brokers 0, 1, at most 12 s"),
        (Waiting(_partition(-1), (), (2,), None), "waits for broker 2 to come back"),
        (
            Waiting(_partition(-1), (0,), (2,), 900),
            "waits for proofs of broker 0 and broker 2 to come back, at most 1 s",
        ),
    ],
)
def test_brokers_that_an_election_waits_for_are_shown(waiting: Waiting, expected: str) -> None:
    assert waiting.summary == expected
    replica = FaultyReplica(waiting.partition, 0, ((4, 5),), "")
    assert Faults([replica], [waiting]).outlook(replica) == expected


def test_ranges_are_written_as_people_read_them() -> None:
    assert format_ranges(((4, 5), (7, 10), (10, 12))) == "4, 7 to 11"

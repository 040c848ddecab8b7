"""What `qanat cluster status` says of damaged replicas and of elections that wait."""

from __future__ import annotations

import pytest

from qanat.app.cluster.faults import Faults, FaultyReplica, Waiting
from qanat.app.cluster.view import PartitionView
from qanat.cluster.election_waits import format_ranges


def _partition(leader: int, in_sync: tuple[int, ...] = (1,)) -> PartitionView:
    return PartitionView("orders", 0, leader, (0, 1, 2), in_sync)


@pytest.mark.parametrize(
    ("partition", "ranges", "told"),
    [
        (_partition(1), ((4, 5),), "repaired from broker 1"),
        (_partition(1), (), "repaired from broker 1"),
        (_partition(0, (0, 1)), ((4, 5),), "hands over to another replica"),
        (_partition(0, (0,)), ((4, 5),), "serves the rest; waits for an operator"),
        (_partition(0, (0,)), (), "waits for an operator"),
    ],
)
def test_what_becomes_of_a_replica_is_told(partition: PartitionView, ranges: tuple[tuple[int, int]], told: str) -> None:
    assert Faults().outlook(FaultyReplica(partition, 0, ranges, "")) == told


@pytest.mark.parametrize(
    ("waiting", "told"),
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
def test_whom_an_election_waits_for_is_told(waiting: Waiting, told: str) -> None:
    assert waiting.told == told
    replica = FaultyReplica(waiting.partition, 0, ((4, 5),), "")
    assert Faults([replica], [waiting]).outlook(replica) == told


def test_ranges_are_told_as_people_write_them() -> None:
    assert format_ranges(((4, 5), (7, 10), (10, 12))) == "4, 7 to 11"

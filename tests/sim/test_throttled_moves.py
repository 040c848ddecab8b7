"""Partitions moved at a limited rate, on a small simulated cluster: the copy is slow, clients are not."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from tests.sim.stage import AT, TOPIC, Script, Stage
from verify.clusters.machine import Machine

from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from qanat.wire.kafka.registry import ApiKey

_SIZE = 200_000
_RECORDS = 8
_RATE = 400_000
_SECONDS = _SIZE * (_RECORDS - 1) / _RATE
"""What is known to take at least so long."""


class ThrottledStage(Stage):
    """Brokers with a rate, and a topic that may name replicas."""

    rates: dict[str, int]

    def _machine(self, node_id: int) -> Machine:
        machine = super()._machine(node_id)
        few = {"replica_fetch_max_bytes": _SIZE, **self.rates}
        machine._settings = replace(machine._settings, **few)
        return machine


def _play(script: Script, rates: dict[str, int], configs: dict[str, str]) -> None:
    stage = ThrottledStage(script, replicas=2, min_in_sync=1, configs=configs)
    stage.rates = rates
    report = stage.run()
    assert report.problems == [], report.problems[0]


async def _reassign(stage: Stage, target: list[int] | None) -> None:
    row = ReassignablePartition(0, target)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(TOPIC, [row])])
    async with Cluster(stage.bootstrap, "operator", 20.0) as cluster:
        answer = await cluster.call_controller(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request, Deadline.after(20.0))
        assert [one.error_code for topic in answer.responses for one in topic.partitions] == [0]


async def _fill(stage: Stage) -> None:
    for number in range(_RECORDS):
        assert await stage.send(bytes([number]) * _SIZE) is not None


def _newcomer(stage: Stage) -> Machine:
    return next(machine for machine in stage.machines if machine.node_id not in stage.state.replicas)


@pytest.mark.parametrize(
    ("rates", "configs"),
    [
        ({"reassignment_throttled_rate": _RATE}, {}),
        ({"follower_replication_throttled_rate": _RATE}, {"follower.replication.throttled.replicas": "*"}),
        ({"leader_replication_throttled_rate": _RATE}, {"leader.replication.throttled.replicas": "*"}),
    ],
    ids=["by default", "at the follower", "at the leader"],
)
def test_a_replica_that_is_added_copies_no_faster_than_it_may_and_holds_up_nobody(
    rates: dict[str, int], configs: dict[str, str]
) -> None:
    async def script(stage: Stage) -> None:
        await _fill(stage)
        new = _newcomer(stage)
        begun = stage.loop.time()
        await _reassign(stage, [new.node_id, stage.leader.node_id])
        slowest = 0.0
        while stage.state.adding:
            before = stage.loop.time()
            assert await stage.send(b"meanwhile") is not None
            slowest = max(slowest, stage.loop.time() - before)
            await asyncio.sleep(0.2)
            assert stage.loop.time() - begun < 20 * _SECONDS
        assert stage.loop.time() - begun >= _SECONDS
        assert slowest < 1.0, "producers do not wait for the copy"
        await stage.whole_again()

    _play(script, rates, configs)


def test_a_replica_that_nobody_has_named_is_copied_as_fast_as_it_goes() -> None:
    async def script(stage: Stage) -> None:
        await _fill(stage)
        new, begun = _newcomer(stage), stage.loop.time()
        await _reassign(stage, [new.node_id, stage.leader.node_id])
        await stage.until(lambda: not stage.state.adding, "it is moved")
        assert stage.loop.time() - begun < _SECONDS / 2

    rates = {"reassignment_throttled_rate": 2**63 - 1, "follower_replication_throttled_rate": _RATE}
    _play(script, rates, {"follower.replication.throttled.replicas": "7:0"})


def test_a_throttled_move_is_taken_back_and_leaves_nothing_behind() -> None:
    async def script(stage: Stage) -> None:
        await _fill(stage)
        before, new = stage.state.replicas, _newcomer(stage)
        assert new.node is not None
        await _reassign(stage, [new.node_id, stage.leader.node_id])
        await stage.until(lambda: AT in new.node.broker.local_replicas.logs, "it has begun")  # type: ignore[union-attr]
        await _reassign(stage, None)
        assert sorted(stage.state.replicas) == sorted(before)
        assert not stage.state.adding
        await stage.until(lambda: AT not in new.node.broker.local_replicas.logs, "the copy is gone")  # type: ignore[union-attr]
        assert await stage.send(b"after") is not None

    _play(script, {"reassignment_throttled_rate": _RATE}, {})

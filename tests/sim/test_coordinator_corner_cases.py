"""Coordinators that die and clocks that jump, each as a script on a small simulated cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.sim.stage import AT, TOPIC, Stage, play
from tests.sim.test_cluster_corner_cases import _produce
from verify.clusters import machine as machines
from verify.clusters.machine import Machine, wall_ms

from qanat.broker.replicas.partition import EndMarker
from qanat.connection.batch_producer import BatchProducer
from qanat.connection.cluster import Cluster
from qanat.connection.committed import commit_offsets, committed_offsets
from qanat.connection.deadline import Deadline
from qanat.log.segments.aborted_index import AbortedTransaction
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.model.topic_names import TRANSACTIONS_TOPIC
from qanat.wire.records import Record, encode_batch

ID = "x"
HOUR_MS = 60 * 60 * 1000


def _coordinator(stage: Stage) -> Machine:
    """The leader of the transaction topic's partition that has the id."""
    for machine in stage.machines:
        if machine.node is not None:
            topic = machine.node.broker.transactions.topic
            if TopicPartition(TRANSACTIONS_TOPIC, topic.partition_of(ID)) in machine.node.broker.partitions:
                return machine
    raise AssertionError("there is no coordinator")


def _stop_markers(machine: Machine, after: int) -> asyncio.Event:
    """Let a coordinator write so many rounds of markers and no more; set when the next one was asked for."""
    assert machine.node is not None
    markers, asked = machine.node.broker.markers, asyncio.Event()
    write_everywhere, rounds = markers.write_everywhere, [0]

    async def stopped(marker: EndMarker, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        rounds[0] += 1
        if rounds[0] > after:
            asked.set()
            await asyncio.Event().wait()
        outcome = await write_everywhere(marker, partitions)
        asked.set()  # The markers lie in the partitions; whether that is written down is left to chance.
        return outcome

    markers.write_everywhere = stopped  # type: ignore[method-assign]
    return asked


@pytest.mark.parametrize("is_committed", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("dies", ["ongoing", "prepared", "marked", "complete"])
def test_c38_a_coordinator_that_dies_in_any_state_is_succeeded_by_one_with_the_same_verdict(
    dies: str, is_committed: bool
) -> None:
    async def script(stage: Stage) -> None:
        async with Cluster(stage.bootstrap, "writer", 60.0) as cluster:
            producer = await BatchProducer.transactional(cluster, ID, 60_000, Deadline.after(60.0))
            batch = encode_batch([Record(0, wall_ms(), b"", b"in a transaction")])
            await producer.send(TOPIC, {0: batch}, Deadline.after(60.0))
            old = _coordinator(stage)
            asked = _stop_markers(old, {"prepared": 0, "marked": 1}.get(dies, 99))
            if dies == "ongoing":
                old.kill()
                await producer.end(Deadline.after(60.0), is_committed=is_committed)
            else:
                await producer.end(Deadline.after(60.0), is_committed=is_committed)
                await asked.wait()
                if dies == "complete":
                    await asyncio.sleep(1.0)
                old.kill()
            await old.start()
            await stage.whole_again()
            with pytest.raises(QanatError):  # The verdict that was answered is the verdict.
                await producer.end(Deadline.after(10.0), is_committed=not is_committed)
        await stage.whole_again()
        led = stage.leader.node
        assert led is not None
        log = led.broker.partitions[AT].log
        assert log.last_stable_offset == log.end_offset, "nothing stays open"
        aborted: Sequence[AbortedTransaction] = log.aborted_transactions(0, log.end_offset)
        assert [one.first_offset for one in aborted] == ([] if is_committed else [0])

    play(script)


def test_c71_a_wall_clock_that_jumps_or_strobes_costs_no_lease_no_leader_and_no_membership(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    skew_ms = [0]
    monkeypatch.setattr(machines, "wall_ms", lambda: wall_ms() + skew_ms[0])

    async def script(stage: Stage) -> None:
        await stage.send(b"before")
        await stage.whole_again()
        before = stage.state
        starts = [machine.starts for machine in stage.machines]
        async with Cluster(stage.bootstrap, "group", 30.0) as cluster:
            for number, jump_ms in enumerate((HOUR_MS, -HOUR_MS, -HOUR_MS, HOUR_MS)):
                skew_ms[0] += jump_ms
                assert await stage.send(f"{number}".encode()) == number + 1
                await commit_offsets(cluster, "g", {AT: number}, Deadline.after(30.0))
                assert await committed_offsets(cluster, "g", Deadline.after(30.0)) == {AT: number}
                await asyncio.sleep(5.0)
                assert stage.state == before
            for _ in range(100):
                skew_ms[0] = 1000 - skew_ms[0]
                await asyncio.sleep(0.1)
                assert stage.state == before
        for jump_ms in (HOUR_MS, -2 * HOUR_MS):
            slow = stage.followers[0]
            stage.loop.pause(slow.owner)  # For less than a follower may lag.
            assert await _produce(stage.leader, b"not on every member", 1) is ErrorCode.NONE
            skew_ms[0] += jump_ms
            await asyncio.sleep(1.0)
            stage.loop.resume(slow.owner)
            await asyncio.sleep(1.0)
            assert stage.state == before, "by the clock on the wall, it lagged for an hour"
        assert [machine.starts for machine in stage.machines] == starts
        assert all(machine.is_up for machine in stage.machines)
        assert len(await stage.read()) == 7

    play(script)


def test_c71_a_transaction_lasts_as_long_as_it_may_whatever_the_wall_clock_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    skew_ms = [0]
    monkeypatch.setattr(machines, "wall_ms", lambda: wall_ms() + skew_ms[0])

    async def script(stage: Stage) -> None:
        async with Cluster(stage.bootstrap, "writer", 60.0) as cluster:
            producer = await BatchProducer.transactional(cluster, ID, 20_000, Deadline.after(60.0))
            batch = encode_batch([Record(0, wall_ms(), b"", b"in a transaction")])
            await producer.send(TOPIC, {0: batch}, Deadline.after(60.0))
            for number, jump_ms in enumerate((HOUR_MS, -HOUR_MS)):
                skew_ms[0] = jump_ms
                for other in range(10):  # Some are with the same coordinator, which looks at its deadlines.
                    await BatchProducer.transactional(cluster, f"{number} {other}", 20_000, Deadline.after(60.0))
                await asyncio.sleep(2.0)
            await producer.end(Deadline.after(60.0), is_committed=True)
        await stage.whole_again()
        assert (await stage.read())[0] == b"in a transaction"

    play(script)

"""The failure detector on simulated clusters: one bad link evicts no broker, a dead leader is replaced at once."""

from __future__ import annotations

import asyncio

import pytest
from tests.sim.stage import Stage, play
from verify.clusters.machine import Machine

from qanat.cluster import keys

_AT_ONCE_S = 0.05
"""Some trips to the store; the lease takes two seconds."""


def _registration(stage: Stage, machine: Machine) -> int | None:
    entry = stage._truth.peek(keys.broker(machine.node_id))
    return None if entry is None else entry.create_revision


async def _registrations(stage: Stage, machine: Machine, seconds: float) -> set[int]:
    """The broker epochs that a machine has in this time."""
    seen: set[int] = set()
    end = stage.loop.time() + seconds
    while stage.loop.time() < end:
        if (epoch := _registration(stage, machine)) is not None:
            seen.add(epoch)
        await asyncio.sleep(0.02)
    return seen


def _is_suspected(stage: Stage, machine: Machine) -> bool:
    return stage._truth.peek(keys.failure_report(machine.node_id)) is not None


@pytest.mark.parametrize("brokers", [2, 3, pytest.param(5, marks=[pytest.mark.long, pytest.mark.data])])
def test_c18_one_link_that_refuses_evicts_nobody(brokers: int) -> None:
    async def script(stage: Stage) -> None:
        assert await stage.send(b"before") == 0
        leader, epoch = stage.leader, stage.state.leader_epoch
        odd = next(one for one in stage.machines if one.node_id in stage.state.replicas and one is not leader)
        stage.network.refuse(odd.host, leader.host)
        counting = asyncio.create_task(_registrations(stage, leader, 60.0))
        while not counting.done():
            assert await stage.send(b"x", 10.0) is not None, "writing goes on"
            await asyncio.sleep(0.2)
        assert len(counting.result()) == 1
        assert stage.leader is leader
        assert stage.state.leader_epoch == epoch
        stage.network.heal()
        await stage.whole_again()

    play(script, brokers=brokers, replicas=min(brokers, 3), min_in_sync=1)


def test_a_suspicion_that_nobody_shares_is_withdrawn_and_not_written_again_at_once() -> None:
    async def script(stage: Stage) -> None:
        leader, odd = stage.leader, stage.followers[0]
        stage.network.refuse(odd.host, leader.host)
        await stage.until(lambda: _is_suspected(stage, leader), "it is written")
        await stage.until(lambda: not _is_suspected(stage, leader), "it is withdrawn")
        end = stage.loop.time() + 5.0
        while stage.loop.time() < end:
            assert not _is_suspected(stage, leader)
            await asyncio.sleep(0.01)

    play(script)


def test_a_healthy_broker_that_two_cannot_reach_is_evicted_ever_more_seldom() -> None:
    async def script(stage: Stage) -> None:
        leader = stage.leader
        for one in stage.followers:
            stage.network.refuse(one.host, leader.host)
        # At once, and after back-offs of 10, 20 and 40 s.
        assert 3 <= len(await _registrations(stage, leader, 90.0)) <= 5

    report = Stage(script).run()
    assert all(problem.startswith("a live broker is evicted") for problem in report.problems), report.problems
    assert 2 <= len(report.problems) <= 4


@pytest.mark.parametrize(("brokers", "replicas"), [(3, 3), (3, 2), (5, 3)])
def test_a_leader_that_is_killed_again_and_again_is_replaced_at_once_each_time(brokers: int, replicas: int) -> None:
    """With two replicas one broker alone follows, and asks another."""

    async def script(stage: Stage) -> None:
        assert await stage.send(b"before") == 0
        for _ in range(5):
            await stage.whole_again()
            leader, began = stage.leader, stage.loop.time()
            leader.kill()
            while stage.state.leader in (-1, leader.node_id):
                assert stage.loop.time() - began < _AT_ONCE_S, "it must not wait for the lease"
                await asyncio.sleep(0.0005)
            await asyncio.sleep(0.3)
            await leader.start()

    play(script, brokers=brokers, replicas=replicas, min_in_sync=1)


def test_of_two_brokers_the_lease_decides() -> None:
    async def script(stage: Stage) -> None:
        assert await stage.send(b"before") == 0
        leader, began = stage.leader, stage.loop.time()
        leader.kill()
        await stage.until(lambda: stage.state.leader not in (-1, leader.node_id), "the other one leads")
        assert 1.0 < stage.loop.time() - began < 3.0
        assert await stage.send(b"after") == 1

    play(script, brokers=2, replicas=2, min_in_sync=1)


def test_a_witness_that_cannot_confirm_its_lease_evicts_nobody() -> None:
    async def script(stage: Stage) -> None:
        assert await stage.send(b"before") == 0
        leader, witnesses = stage.leader, stage.followers
        for one in witnesses:
            assert one.node is not None
            kept = one.node.broker.membership.kept_lease
            assert kept is not None
            kept.remaining_ms = lambda: 0  # type: ignore[method-assign]
        before = _registration(stage, leader)
        leader.kill()
        end = stage.loop.time() + 1.0
        while stage.loop.time() < end:
            assert _registration(stage, leader) == before
            await asyncio.sleep(0.01)
        for one in witnesses:
            assert one.node is not None
            del one.node.broker.membership.kept_lease.remaining_ms  # type: ignore[union-attr]
        await stage.until(lambda: stage.state.leader not in (-1, leader.node_id), "another one leads")

    play(script)

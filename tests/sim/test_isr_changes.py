"""Who may be a member of the in-sync set: the process that is registered, at the moment in which the set is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.sim.stage import AT, Stage, play
from verify.clusters.machine import Machine

from qanat.cluster import keys
from qanat.cluster.store import Compare, Lease, Operation


async def _deregister(stage: Stage, machine: Machine) -> None:
    """End a broker's lease in the store."""
    entry = stage._truth.peek(keys.broker(machine.node_id))
    assert entry is not None
    assert entry.lease is not None
    await stage._truth.revoke(Lease(entry.lease, 0))


def _stall(leader: Machine, go_on: asyncio.Event) -> tuple[asyncio.Event, list[bool]]:
    """Hold up the next change of an in-sync set on its way to the store; when it is held, and whether it was stored."""
    assert leader.node is not None
    isr_changes = leader.node.broker.isr_changes
    decided, outcomes, insist = asyncio.Event(), list[bool](), isr_changes._commit_until_known

    async def stalled(compares: Sequence[Compare], operations: Sequence[Operation]) -> bool:
        decided.set()
        await go_on.wait()
        outcomes.append(await insist(compares, operations))
        return outcomes[-1]

    isr_changes._commit_until_known = stalled  # type: ignore[method-assign]
    return decided, outcomes


def test_c08_a_broker_that_is_not_registered_any_more_keeps_fetching_and_does_not_come_back_into_the_set() -> None:
    async def script(stage: Stage) -> None:
        leader, zombie = stage.leader, stage.followers[0]
        await stage.send(b"one")
        zombie.store.is_cut = True  # It does not hear of it, and cannot register again.
        await _deregister(stage, zombie)
        await stage.until(lambda: zombie.node_id not in stage.state.in_sync_nodes, "it is dropped")
        assert leader is stage.leader
        for number in range(10):
            assert await stage.send(f"{number}".encode()) is not None
            await asyncio.sleep(0.5)
            assert zombie.node_id not in stage.state.in_sync_nodes
        assert zombie.node is not None
        assert leader.node is not None
        ends = [one.broker.local_replicas.logs[AT].end_offset for one in (zombie.node, leader.node)]
        assert ends[0] == ends[1], "it fetches all the while, and has everything"
        zombie.store.heal()
        await stage.whole_again()

    play(script)


def test_c10_a_follower_whose_registration_ended_before_the_set_was_stored_is_not_let_in() -> None:
    async def script(stage: Stage) -> None:
        leader, joiner = stage.leader, stage.followers[0]
        await stage.send(b"one")
        joiner.kill()
        await stage.until(lambda: joiner.node_id not in stage.state.in_sync_nodes, "it is dropped")
        go_on = asyncio.Event()
        decided, outcomes = _stall(leader, go_on)
        await joiner.start()
        await asyncio.wait_for(decided.wait(), 60.0)
        joiner.store.is_cut = True
        await _deregister(stage, joiner)
        go_on.set()
        await stage.until(lambda: bool(outcomes), "the store has answered")

        assert not outcomes[0]
        assert joiner.node_id not in stage.state.in_sync_nodes
        joiner.store.heal()
        await stage.whole_again()

    play(script)


def test_c81_a_leader_whose_registration_ended_before_the_set_was_stored_changes_nothing() -> None:
    async def script(stage: Stage) -> None:
        leader, joiner = stage.leader, stage.followers[0]
        await stage.send(b"one")
        joiner.kill()
        await stage.until(lambda: joiner.node_id not in stage.state.in_sync_nodes, "it is dropped")
        go_on = asyncio.Event()
        decided, outcomes = _stall(leader, go_on)
        await joiner.start()
        await asyncio.wait_for(decided.wait(), 60.0)
        before = stage.state
        controllers = [
            one for one in stage.machines if one.node is not None and one.node.broker.controller_loop.is_controller
        ]
        for one in controllers:
            one.store.is_cut = True  # No other broker changes the partition: its own compare would refuse the set, too.
        await _deregister(stage, leader)
        go_on.set()
        if leader in controllers:
            leader.store.heal()
        await stage.until(lambda: bool(outcomes), "the store has answered")

        assert not outcomes[0]
        assert joiner.node_id not in before.in_sync_nodes
        for one in controllers:
            one.store.heal()
        await stage.whole_again()

    play(script)

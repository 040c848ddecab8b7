"""C81: a broker whose renewals are not confirmed elects no leader and changes no in-sync set."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.sim.stage import Stage, play
from verify.clusters.machine import Machine

from qanat.broker.metadata.confirmed_lease import MARGIN
from qanat.cluster import keys
from qanat.cluster.store import Committed, Compare, KeptLease, Lease, Operation, Put, Refused
from qanat.model.errors import StoreUnavailableError


class _Renewals:
    """A machine's renewals: they reach the store, and while `are_answered` is false, no answer comes back."""

    def __init__(self, stage: Stage, machine: Machine) -> None:
        self.are_answered = True
        self.acts_ms: list[int] = []
        """What was certainly left of the lease at each change of a partition that the machine sent."""
        self._stage = stage
        self._machine = machine
        self._keep_alive, self._commit = machine.store.keep_alive, machine.store.commit
        machine.store.keep_alive = self._renew  # type: ignore[method-assign]
        machine.store.commit = self._note  # type: ignore[method-assign]

    @property
    def kept(self) -> KeptLease:
        assert self._machine.node is not None
        kept = self._machine.node.broker.membership.kept_lease
        assert kept is not None
        return kept

    @property
    def margin_ms(self) -> float:
        return MARGIN * self.kept.lease.ttl_ms

    async def _renew(self, lease: Lease) -> None:
        await self._keep_alive(lease)
        if not self.are_answered:
            raise StoreUnavailableError("the answer is lost")

    async def _note(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed | Refused:
        puts = [one for one in operations if isinstance(one, Put)]
        if any(isinstance(keys.parse(put.key), keys.PartitionKey) for put in puts):
            self.acts_ms.append(self.kept.remaining_ms())
        return await self._commit(compares, operations)

    async def run_out(self) -> None:
        """Return once the lease is not confirmed any more, though the store still has it."""
        self.are_answered = False
        await self._stage.until(lambda: self.kept.remaining_ms() <= self.margin_ms, "the margin is reached")
        assert self._stage._truth.peek(keys.broker(self._machine.node_id)) is not None


def _controller(stage: Stage) -> Machine:
    return next(one for one in stage.machines if one.node is not None and one.node.broker.controller_loop.is_controller)


def test_c81_a_controller_whose_lease_is_not_confirmed_elects_nobody_until_it_is() -> None:
    async def script(stage: Stage) -> None:
        assert await stage.send(b"before") == 0
        while (controller := _controller(stage)) is stage.leader:
            controller.kill()
            await asyncio.sleep(0.5)
            await controller.start()
            await stage.whole_again()
        leader, renewals = stage.leader, _Renewals(stage, controller)
        await renewals.run_out()
        leader.kill()
        await asyncio.sleep(5.0)
        assert _controller(stage) is controller, "the store has its lease all the time"
        assert stage.leader is leader
        assert renewals.acts_ms == []
        renewals.are_answered = True
        await stage.until(lambda: stage.state.leader not in (-1, leader.node_id), "another one leads")
        assert renewals.acts_ms
        assert min(renewals.acts_ms) > renewals.margin_ms
        await leader.start()
        await stage.whole_again()

    play(script)


def test_c81_a_leader_whose_lease_is_not_confirmed_changes_no_in_sync_set_until_it_is() -> None:
    async def script(stage: Stage) -> None:
        assert await stage.send(b"before") == 0
        leader, follower = stage.leader, stage.followers[0]
        before, renewals = stage.state, _Renewals(stage, leader)
        await renewals.run_out()
        stage.network.cut_off(follower.host, [one.host for one in stage.machines if one is not follower])
        sending = asyncio.create_task(stage.send(b"waits for the follower", 30.0))
        await asyncio.sleep(6.0)  # Four times as long as a follower may be silent.
        assert stage.state == before
        assert renewals.acts_ms == []
        renewals.are_answered = True
        await stage.until(lambda: follower.node_id not in stage.state.in_sync_nodes, "it is dropped")
        assert min(renewals.acts_ms) > renewals.margin_ms
        assert await sending == 1
        stage.network.heal()
        await stage.whole_again()

    play(script)

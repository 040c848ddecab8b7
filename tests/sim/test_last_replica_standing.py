"""The last replica standing (KIP-966): it crashes, loses records that were not flushed, and is back before the others.

The topic is not flushed before records are acknowledged. The replica that stopped cleanly before the last one misses
nothing, so the partition waits for it: however long that takes, and however the crashed broker is restarted meanwhile.
"""

from __future__ import annotations

import asyncio

import pytest
from tests.sim.stage import Script, Stage, play
from verify.clusters.bug_bank.bug import Patches
from verify.clusters.bug_bank.election_bugs import take_a_crash_for_a_stop
from verify.clusters.machine import Machine

from qanat.cluster.values import NO_LEADER

_VALUES = [b"%d" % number for number in range(10)]
_WAITED_S = 40.0
"""Longer than an election waits for replicas that may have more than a sound one."""


async def _leave_one(stage: Stage) -> tuple[Machine, Machine]:
    """Acknowledge records, and stop all but one; returns that one, and the last that stopped before it."""
    for number, value in enumerate(_VALUES):
        assert await stage.send(value) == number
    await stage.whole_again()
    last, (first, second) = stage.leader, stage.followers
    await first.stop()
    await stage.until(lambda: first.node_id not in stage.state.in_sync_nodes, "the first has left")
    await second.stop()
    await stage.until(lambda: second.node_id not in stage.state.in_sync_nodes, "the second has left")
    assert stage.state.in_sync_nodes == (last.node_id,)
    assert [member.node_id for member in stage.state.eligible] == [second.node_id], "nothing is committed without it"
    return last, second


async def _crash_and_stop(stage: Stage) -> None:
    """The one that is left crashes, and its next process stops cleanly: that one has lost nothing."""
    last, other = await _leave_one(stage)
    last.lose_power("drop_all")
    await last.start()
    await asyncio.sleep(3.0)
    assert stage.state.leader == NO_LEADER
    await last.stop()
    await last.start()
    await asyncio.sleep(3.0)
    await _find_everything(stage, other)


async def _crash_and_wait(stage: Stage) -> None:
    last, other = await _leave_one(stage)
    last.lose_power("drop_all")
    await last.start()
    await asyncio.sleep(_WAITED_S)
    await _find_everything(stage, other)


async def _find_everything(stage: Stage, other: Machine) -> None:
    assert stage.state.leader == NO_LEADER, "a replica that may have lost its end does not lead"
    await other.start()
    await stage.until(lambda: stage.state.leader == other.node_id, "the one that misses nothing leads")
    for machine in stage.machines:
        if not machine.is_up:
            await machine.start()
    await stage.whole_again()
    assert await stage.read() == _VALUES
    assert await stage.send(b"more") == len(_VALUES)


_SCRIPTS = pytest.mark.parametrize("script", [_crash_and_stop, _crash_and_wait], ids=["stops again", "waits"])


@_SCRIPTS
def test_c13_a_crash_of_the_last_replica_costs_nothing_that_another_has(script: Script) -> None:
    play(script, is_synced=False)


@_SCRIPTS
def test_c13_a_crash_that_is_taken_for_a_stop_is_noticed(script: Script) -> None:
    with Patches() as patches:
        take_a_crash_for_a_stop(patches)
        report = Stage(script, is_synced=False).run()

    assert any("lacks what is committed" in problem for problem in report.problems), report.problems

"""Disks that lie: one copy comes back damaged, older or without its folder after all replicas lost power.

Nothing that was acknowledged is lost, the copy is repaired from its peers, and it does not lead before that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import pytest
from tests.sim.stage import AT, TOPIC, Stage, play
from verify.clusters.machine import Machine

from qanat.cluster import keys
from qanat.cluster.rejection import Rejection
from qanat.cluster.store import Compare, Operation, Put
from qanat.cluster.topic_configs import ConfigAct, ConfigChange, decide_configs
from qanat.log.runtime.maintenance import Maintenance
from qanat.model.errors import StoreUnavailableError

_LOG = "00000000000000000000.log"
_CHECKPOINTED_S = 130.0
"""After so long, checkpoints speak of every record."""


def folder_of(machine: Machine) -> str:
    return f"/data/broker-{machine.node_id}/{AT}"


def flip(machine: Machine, byte: int) -> None:
    machine.disk.rot(f"{folder_of(machine)}/{_LOG}", 8 * byte)


def lose_folder(machine: Machine) -> None:
    disk, folder = machine.disk, folder_of(machine)
    for name in disk.list(folder):
        disk.remove(f"{folder}/{name}")
    disk.remove_directory(folder)
    disk.sync_directory(folder.rpartition("/")[0])


async def send_ten(stage: Stage) -> list[bytes]:
    values = [b"%d" % number for number in range(10)]
    for number, value in enumerate(values):
        assert await stage.send(value) == number
    await stage.whole_again()
    return values


async def flush_always(machine: Machine) -> None:
    """Have records on disk before they are acknowledged, from now on."""
    assert machine.node is not None
    broker, change = machine.node.broker, ConfigChange("flush.messages", ConfigAct.SET, "1")
    decided = await broker.metadata_changes.carry_out(
        lambda image: decide_configs(image, TOPIC, [change], broker.current_settings.check_topic)
    )
    assert not isinstance(decided, Rejection)


async def start_all(stage: Stage) -> None:
    await asyncio.gather(*(machine.start() for machine in stage.machines))


_GUARDS = [pytest.mark.long, pytest.mark.data]


def _marks(bit: int) -> list[pytest.MarkDecorator]:
    """Each eighth bit is part of `make test`; each fifth of `make test-data`."""
    return [] if bit % 8 == 0 else _GUARDS if bit % 5 == 0 else [pytest.mark.long]


@pytest.mark.parametrize("waited_s", [1.0, _CHECKPOINTED_S], ids=["above the checkpoint", "below the checkpoint"])
@pytest.mark.parametrize("byte", [1, 14, 64], ids=["base offset", "leader epoch", "record"])
def test_t8_one_flipped_bit_costs_nothing_and_is_repaired(waited_s: float, byte: int) -> None:
    async def script(stage: Stage) -> None:
        values = await send_ten(stage)
        await asyncio.sleep(waited_s)
        first = stage.machines[stage.state.replicas[0]]
        for machine in stage.machines:
            machine.lose_power("drop_all")
        batch = len(first.disk.durable_bytes(f"{folder_of(first)}/{_LOG}")) // 10
        flip(first, 4 * batch + byte)
        await start_all(stage)
        await stage.whole_again()
        assert await stage.read() == values
        assert await stage.send(b"more") == 10

    play(script)


@pytest.mark.parametrize("batch", [0, 9], ids=["the first batch", "the last batch"])
@pytest.mark.parametrize("bit", [pytest.param(bit, marks=_marks(bit)) for bit in range(8 * 12, 8 * 16)])
def test_t8_a_flipped_leader_epoch_costs_nothing_and_its_copy_catches_up(bit: int, batch: int) -> None:
    async def script(stage: Stage) -> None:
        values = await send_ten(stage)
        first = stage.machines[stage.state.replicas[0]]
        for machine in stage.machines:
            machine.lose_power("drop_all")
        size = len(first.disk.durable_bytes(f"{folder_of(first)}/{_LOG}")) // 10
        first.disk.rot(f"{folder_of(first)}/{_LOG}", 8 * batch * size + bit)
        await start_all(stage)
        await stage.whole_again()
        assert await stage.read() == values
        assert await stage.send(b"more") == 10
        await stage.whole_again()

    play(script)


def test_c70_a_disk_put_back_to_an_older_image_does_not_lead_and_catches_up() -> None:
    async def script(stage: Stage) -> None:
        for number in range(5):
            assert await stage.send(b"%d" % number) == number
        old = stage.leader
        image = old.disk.crash("keep_all")
        for number in range(5, 10):
            assert await stage.send(b"%d" % number) == number
        await stage.whole_again()
        epoch = stage.state.leader_epoch
        for machine in stage.machines:
            machine.lose_power("keep_all")
        old.disk, old.lied_at = image, stage.revision
        await start_all(stage)
        await stage.until(lambda: stage.state.leader_epoch > epoch, "a leader is elected")
        assert stage.leader is not old
        await stage.whole_again()
        assert await stage.read() == [b"%d" % number for number in range(10)]

    play(script)


def test_c70_an_image_of_an_earlier_clean_stop_does_not_lead() -> None:
    async def script(stage: Stage) -> None:
        for number in range(5):
            assert await stage.send(b"%d" % number) == number
        old = stage.machines[stage.state.replicas[0]]
        await old.stop()
        image = old.disk.crash("keep_all")
        await old.start()
        await stage.whole_again()
        for number in range(5, 10):
            assert await stage.send(b"%d" % number) == number
        await stage.whole_again()
        for machine in stage.machines:
            machine.lose_power("keep_all")
        old.disk, old.lied_at = image, stage.revision
        await old.start()
        await asyncio.sleep(5.0)  # Alone, and shorter than the bound.
        assert stage.state.leader < 0
        await asyncio.gather(*(machine.start() for machine in stage.machines if machine is not old))
        await stage.whole_again()
        assert await stage.read() == [b"%d" % number for number in range(10)]

    play(script)


@pytest.mark.parametrize("waited_s", [0.0, _CHECKPOINTED_S], ids=["before a checkpoint", "after a checkpoint"])
@pytest.mark.parametrize("is_clean", [False, True], ids=["power loss", "clean stop"])
def test_a_missing_folder_is_no_new_replica_and_is_made_anew_from_a_leader(waited_s: float, is_clean: bool) -> None:
    async def script(stage: Stage) -> None:
        values = await send_ten(stage)
        await asyncio.sleep(waited_s)
        first = stage.machines[stage.state.replicas[0]]
        for machine in stage.machines:
            if is_clean:
                await machine.stop()
            else:
                machine.lose_power("keep_all")
        lose_folder(first)
        await start_all(stage)
        await stage.whole_again()
        assert await stage.read() == values
        assert await stage.send(b"more") == 10

    play(script)


def test_an_election_waits_for_those_that_are_away_after_an_unclean_stop_of_all_but_not_for_ever() -> None:
    async def script(stage: Stage) -> None:
        values = await send_ten(stage)
        for machine in stage.machines:
            machine.lose_power("keep_all")
        for machine in stage.machines[:2]:
            await machine.start()
        await asyncio.sleep(20.0)
        assert stage.state.leader < 0, "broker 2 may have more"
        await asyncio.sleep(20.0)
        assert stage.state.leader >= 0
        assert await stage.read() == values

    play(script)


def test_after_a_clean_stop_of_all_the_last_one_that_stopped_leads_without_the_others() -> None:
    async def script(stage: Stage) -> None:
        values = await send_ten(stage)
        for machine in stage.machines:
            await machine.stop()
        last = stage.machines[-1]
        await last.start()
        await asyncio.sleep(3.0)
        assert stage.leader is last
        assert await stage.read() == values

    play(script)


def test_damage_that_a_running_leader_meets_moves_leadership_and_is_repaired() -> None:
    async def script(stage: Stage) -> None:
        values = await send_ten(stage)
        old = stage.leader
        batch = len(old.disk.durable_bytes(f"{folder_of(old)}/{_LOG}")) // 10
        flip(old, 4 * batch + 64)
        assert old.node is not None
        await Maintenance(old.node.broker.runtime, lambda seconds: None).scrub()
        await stage.until(lambda: stage.leader is not old, "another leads")
        await stage.until(lambda: not stage.state.damaged, "it is repaired")
        await stage.whole_again()
        assert await stage.read() == values

    play(script)


def test_flushing_that_is_switched_on_while_a_crashed_replica_is_in_doubt_does_not_make_it_trusted() -> None:
    async def script(stage: Stage) -> None:
        await send_ten(stage)
        state = stage.state
        last = stage.machines[state.leader]
        for machine in stage.machines:
            if machine is not last:
                machine.lose_power("drop_all")
        await stage.until(lambda: stage.state.in_sync_nodes == (last.node_id,), "it is alone")
        last.lose_power("drop_all")
        await last.start()
        await asyncio.sleep(1.0)
        assert stage.state.leader < 0, "the others may have more"
        await flush_always(last)
        await asyncio.sleep(40.0)
        assert stage.state.leader < 0, "what was acknowledged before was not flushed"

    play(script, is_synced=False)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=_GUARDS) for seed in (2, 3, 4))])
def test_all_come_back_at_once_and_a_leader_is_elected_at_once(seed: int) -> None:
    """A broker that was asked while it registered was not asked again, and the election waited for the bound."""

    async def script(stage: Stage) -> None:
        await send_ten(stage)
        epoch, random = stage.state.leader_epoch, Random(seed)
        for machine in stage.machines:
            machine.lose_power("keep_all")
        await asyncio.sleep(10.0)

        async def start_later(machine: Machine) -> None:
            await asyncio.sleep(random.uniform(0.0, 0.02))
            await machine.start()

        await asyncio.gather(*(start_later(machine) for machine in stage.machines))
        await asyncio.sleep(5.0)
        assert stage.state.leader >= 0
        assert stage.state.leader_epoch > epoch

    play(script)


def test_an_election_whose_commit_fails_once_is_tried_again() -> None:
    async def script(stage: Stage) -> None:
        await send_ten(stage)
        for machine in stage.machines:
            machine.lose_power("keep_all")
        await asyncio.sleep(10.0)
        for machine in stage.machines[:2]:
            await machine.start()
        await asyncio.sleep(10.0)
        brokers = [machine.node.broker for machine in stage.machines if machine.node is not None]
        (controller,) = [broker for broker in brokers if broker.controller_loop.is_controller]
        commit, failed = controller.metadata.commit, list[str]()

        async def fails_once(compares: Sequence[Compare], operations: Sequence[Operation]) -> bool:
            written = [one.key for one in operations if isinstance(one, Put)]
            if not failed and written and written[0].startswith(keys.PARTITIONS):
                failed.append(written[0])
                raise StoreUnavailableError("once")
            return await commit(compares, operations)

        controller.metadata.commit = fails_once  # type: ignore[method-assign]
        await asyncio.sleep(30.0)
        assert failed
        assert stage.state.leader >= 0

    play(script)


def test_a_sound_broker_that_registers_just_before_the_bound_is_still_heard() -> None:
    async def script(stage: Stage) -> None:
        for number in range(5):
            assert await stage.send(b"%d" % number) == number
        old, sound = stage.machines[0], stage.machines[1]
        image = old.disk.crash("keep_all")
        for number in range(5, 10):
            assert await stage.send(b"%d" % number) == number
        await stage.whole_again()
        for machine in stage.machines:
            machine.lose_power("keep_all")
        old.disk, old.lied_at = image, stage.revision
        await asyncio.sleep(10.0)
        await old.start()
        await asyncio.sleep(28.0)
        stage.network.cut(old.host, sound.host)
        stage.network.cut(sound.host, old.host)
        await sound.start()
        await asyncio.sleep(4.0)
        assert stage.state.leader < 0, "its bound is over, and a broker that is there has not proved what it holds"
        stage.network.heal()
        await stage.machines[2].start()
        await stage.whole_again()
        assert await stage.read() == [b"%d" % number for number in range(10)]

    play(script)

"""Fault injection into a simulated cluster: `FAULTS`, by name.

Rule 1: a fault ends by itself, or with `heal`.
Rule 2: no fault is one for which the documentation allows the loss of records: all replicas of a partition lost at
        once, or a power loss of machines whose topics are not flushed before they are acknowledged, unless other
        replicas have everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import TYPE_CHECKING, Any

from qanat.adapters.memory_store import MemoryStore
from qanat.cluster import keys
from qanat.cluster.store import Lease
from qanat.log.directories.partition_folders import empty_folder, parse_folder
from qanat.log.segments import file_names
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.testing.simulation.loop import SimLoop
from qanat.testing.simulation.network import SimNetwork
from verify.clusters.checks import true_state
from verify.clusters.machine import Machine

if TYPE_CHECKING:
    from verify.clusters.plan import Plan

_RETURNS_APART = 0.3
"""Share of restarts in which a machine cannot reach the others at first."""
_FAILURE_REPORT_S = 4.0
"""No report of the failure detector lives longer."""
_QUIET_S = 5.0
"""How long a fault of the whole cluster waits until no other fault is active."""
_FLIPS_IN_LOGS = 0.8
"""Share of flipped bits that are in records, and not in indexes and other files."""
_SETTLED_S = 3.0
"""How long a machine that lost data meets no other fault."""
_ALONE_S = 35.0
"""Longer than an election waits for members that are gone (`unclean.recovery.timeout.ms`)."""


class Faults:
    """Injects and heals the faults of one run."""

    def __init__(
        self, loop: SimLoop, network: SimNetwork, truth: MemoryStore, machines: list[Machine], plan: Plan, seed: int
    ) -> None:
        self._loop = loop
        self._network = network
        self._truth = truth
        self._machines = machines
        self._plan = plan
        self._random = Random(f"faults {seed}")
        self._busy: set[int] = set()
        """Machines with an active fault."""
        self._has_refused_link = False
        self.counts: dict[str, int] = {}

    async def inject(self) -> None:
        """Inject the plan's faults for the plan's time."""
        end = self._loop.time() + self._plan.seconds
        doing: list[asyncio.Task[None]] = []
        while self._loop.time() < end:
            await asyncio.sleep(self._random.expovariate(1 / 0.8))
            name = self._random.choice(self._plan.faults)
            self.counts[name] = self.counts.get(name, 0) + 1
            doing.append(asyncio.create_task(FAULTS[name](self)))
        await asyncio.gather(*doing)

    async def heal(self) -> None:
        """End all faults and start all machines."""
        self._network.heal()
        for machine in self._machines:
            machine.store.heal()
            if machine.owner.is_paused:
                self._loop.resume(machine.owner)
            if not machine.is_up:
                await self._start(machine)

    # Machines

    def _victim(self) -> Machine | None:
        """A machine without an active fault; most of the time a majority has none."""
        free = [machine for machine in self._machines if machine.node_id not in self._busy and machine.is_up]
        if not free or (len(self._busy) >= (len(self._machines) + 1) // 2 and self._random.random() < 0.8):
            return None
        return self._random.choice(free)

    async def _with_victim(self, act: Callable[[Machine], Coroutine[Any, Any, None]]) -> None:
        machine = self._victim()
        if machine is None:
            return
        self._busy.add(machine.node_id)
        try:
            await act(machine)
        finally:
            self._busy.discard(machine.node_id)

    async def _restart(self, machine: Machine) -> None:
        await asyncio.sleep(self._random.expovariate(1 / 0.8))
        if self._random.random() >= _RETURNS_APART:
            await self._start(machine)
            return
        # The store and clients reach it before the other machines do.
        others = [other.host for other in self._machines if other is not machine]
        directions = self._network.cut_off(machine.host, others)
        starting = asyncio.create_task(self._start(machine))
        await asyncio.sleep(self._random.uniform(0.2, 2.5))
        self._network.heal(directions)
        await starting

    async def _start(self, machine: Machine) -> None:
        for _ in range(100):
            try:
                await machine.start()
                return
            except QanatError:
                machine.kill()
                await asyncio.sleep(0.3)

    async def kill(self) -> None:
        async def act(machine: Machine) -> None:
            machine.kill()
            await self._restart(machine)

        await self._with_victim(act)

    async def power_loss(self) -> None:
        if not self._plan.is_synced:
            await self._lose(lambda machine: machine.lose_power("drop_all"))
            return

        async def act(machine: Machine) -> None:
            machine.lose_power(self._random.choice(("drop_all", "random", "keep_all")))
            await self._restart(machine)

        await self._with_victim(act)

    async def power_loss_of_all(self) -> None:
        machines = [machine for machine in self._machines if machine.node_id not in self._busy and machine.is_up]
        self._busy.update(machine.node_id for machine in machines)
        for machine in machines:
            machine.lose_power(self._random.choice(("drop_all", "random")))
        await asyncio.sleep(self._random.expovariate(1 / 0.5))
        for machine in machines:
            await asyncio.sleep(self._random.expovariate(1 / 0.2))
            await self._start(machine)
            self._busy.discard(machine.node_id)

    async def clean_restart(self) -> None:
        async def act(machine: Machine) -> None:
            await machine.stop()
            await self._restart(machine)

        await self._with_victim(act)

    async def pause(self) -> None:
        async def act(machine: Machine) -> None:
            self._loop.pause(machine.owner)
            await asyncio.sleep(self._random.uniform(0.5, 5.0))
            self._loop.resume(machine.owner)

        await self._with_victim(act)

    # The network

    async def partition(self) -> None:
        """Cut off one machine, in one direction or both, or split the cluster in two."""
        names = [machine.host for machine in self._machines]
        some = self._random.sample(names, self._random.randint(1, len(names)))
        is_one_way = self._random.random() < 0.4
        for inside in some:
            for outside in names:
                if outside not in some:
                    self._network.cut(inside, outside)
                    if not is_one_way:
                        self._network.cut(outside, inside)
        await asyncio.sleep(self._random.uniform(0.5, 4.0))
        self._network.heal()

    async def resets(self) -> None:
        self._network.reset_some(self._random.uniform(0.1, 1.0))

    async def refused_link(self) -> None:
        """One healthy machine refuses another's connections, as a firewall does; there is one such link at a time."""
        if self._has_refused_link or len(self._machines) < 2:
            return
        source, target = self._random.sample([machine.host for machine in self._machines], 2)
        self._has_refused_link = True
        self._network.refuse(source, target)
        await asyncio.sleep(self._random.uniform(0.5, 5.0))
        self._network.accept(source, target)
        # A failure report outlives its link: another broker that is refused meanwhile is a second witness.
        await asyncio.sleep(_FAILURE_REPORT_S)
        self._has_refused_link = False

    # The store

    async def store_cut(self) -> None:
        """Some or all machines cannot reach the store; or it gets their requests, and its responses are lost."""
        some = self._random.sample(self._machines, self._random.randint(1, len(self._machines)))
        is_one_way = self._random.random() < 0.5
        for machine in some:
            machine.store.is_mute, machine.store.is_cut = is_one_way, not is_one_way
        await asyncio.sleep(self._random.uniform(0.2, 4.0))
        for machine in some:
            machine.store.is_mute = machine.store.is_cut = False

    async def store_loses_answers(self) -> None:
        for machine in self._machines:
            machine.store.loses_answers = True
        await asyncio.sleep(self._random.uniform(0.5, 3.0))
        for machine in self._machines:
            machine.store.loses_answers = False

    async def store_falls_silent(self) -> None:
        """The store takes the next commit of some machines, and sends them nothing from then on."""
        for machine in self._random.sample(self._machines, self._random.randint(1, len(self._machines))):
            machine.store.silence_s = self._random.uniform(0.2, 4.0)

    async def watch_gap(self) -> None:
        """Some changes never reach the watchers."""
        for machine in self._random.sample(self._machines, self._random.randint(1, len(self._machines))):
            machine.store.lost_changes = self._random.randint(1, 3)

    async def lease_lost(self) -> None:
        """The store ends a broker's lease before its time."""
        machine = self._random.choice(self._machines)
        entry = self._truth.peek(keys.broker(machine.node_id))
        if entry is not None and entry.lease is not None:
            await self._truth.revoke(Lease(entry.lease, 0))

    # Disks

    async def disk_error(self) -> None:
        """An fsync fails: the broker gives the log directory up, and is restarted after a while."""

        async def act(machine: Machine) -> None:
            machine.disk.fail_next("sync")
            await asyncio.sleep(self._random.uniform(0.5, 3.0))
            if self._plan.is_synced and self._random.random() < 0.5:
                machine.lose_power("drop_all")
            else:
                machine.kill()
            await self._restart(machine)

        if self._plan.is_synced:
            await self._with_victim(act)
        else:  # Unflushed records are lost with the pages that could not be written.
            await self._where_others_have_everything(act)

    async def lost_disk(self) -> None:
        """A machine restarts with an empty disk, as a new one would."""
        await self._lose(Machine.lose_disk)

    async def lying_disk(self) -> None:
        """All machines lose power; one disk returns damaged, in an older state, or without a folder."""
        if not await self._is_quiet():
            return
        machine, lie = self._random.choice(self._machines), self._random.choice(("flip", "flip", "older", "folder"))
        self._busy.update(one.node_id for one in self._machines)
        try:
            older = machine.disk.crash("keep_all")
            await asyncio.sleep(self._random.uniform(0.0, 3.0))
            if len(self._in_sync_besides(machine)) < self._plan.min_in_sync:
                return
            self.counts[f"lie: {lie}"] = self.counts.get(f"lie: {lie}", 0) + 1
            for one in self._machines:
                one.lose_power(self._random.choice(("drop_all", "random")))
            machine.lied_at = self._truth.revision + 1  # Members of this very revision joined before the lie.
            if lie == "older":
                machine.disk = older
            else:
                self._damage(machine, lie)
            for one in self._random.sample(self._machines, len(self._machines)):
                await asyncio.sleep(self._random.expovariate(1 / 0.2))
                await self._start(one)
            await asyncio.sleep(_SETTLED_S)
        finally:
            self._busy.clear()

    async def last_one_standing(self) -> None:
        """All machines but one stop cleanly; that one loses power and unflushed records, and is back before them.

        It is restarted once more, or is alone for longer than an election waits, or meets the others soon.
        """
        if not await self._is_quiet():
            return
        *others, last = self._random.sample(self._machines, len(self._machines))
        self._busy.update(one.node_id for one in self._machines)
        try:
            for one in others:
                await one.stop()
                await asyncio.sleep(self._random.expovariate(1 / 0.3))
            if self._others_have_all_of(last):
                last.lose_power("drop_all")
                await asyncio.sleep(self._random.expovariate(1 / 0.5))
                await self._start(last)
                await self._stay_alone(last)
            for one in self._random.sample(others, len(others)):
                await asyncio.sleep(self._random.expovariate(1 / 0.2))
                await self._start(one)
            await asyncio.sleep(_SETTLED_S)
        finally:
            self._busy.clear()

    async def _stay_alone(self, last: Machine) -> None:
        how = self._random.choice(("restarted", "restarted", "waits", "met"))
        self.counts[f"last one: {how}"] = self.counts.get(f"last one: {how}", 0) + 1
        await asyncio.sleep(_ALONE_S if how == "waits" else self._random.uniform(0.0, 4.0))
        if how == "restarted":
            await last.stop()
            await self._start(last)
            await asyncio.sleep(self._random.uniform(0.0, 4.0))

    def _others_have_all_of(self, last: Machine) -> bool:
        """Whether of every partition of the last machine, another one that has stopped misses nothing."""
        assert last.node is not None, "the last machine runs"
        topics = last.node.broker.metadata.image.topics
        for at in last.node.broker.local_replicas.logs:
            topic = topics.get(at.topic)
            state = None if topic is None else true_state(self._truth, topic, at.partition)
            if state is not None and {one.node_id for one in (*state.in_sync, *state.eligible)} == {last.node_id}:
                return False
        return True

    async def _is_quiet(self) -> bool:
        """Wait until no machine has an active fault; returns whether that came in time."""
        deadline = self._loop.time() + _QUIET_S
        while self._busy or not all(machine.is_up for machine in self._machines):
            if self._loop.time() > deadline:
                return False
            await asyncio.sleep(0.1)
        return True

    def _damage(self, machine: Machine, lie: str) -> None:
        disk, base = machine.disk, f"/data/broker-{machine.node_id}"
        folders = [f"{base}/{name}" for name in disk.list(base) if parse_folder(name) is not None]
        if not folders:
            return
        folder = self._random.choice(folders)
        if lie == "folder":
            empty_folder(disk, folder)
            disk.remove_directory(folder)
            disk.sync_directory(base)
            return
        paths = [f"{folder}/{name}" for name in disk.list(folder)]
        logs = [path for path in paths if path.endswith(file_names.LOG) and disk.durable_bytes(path)]
        others = [path for path in paths if path not in logs and disk.durable_bytes(path)]
        chosen = logs if logs and self._random.random() < _FLIPS_IN_LOGS else others
        if chosen:
            disk.rot(self._random.choice(chosen))

    async def _lose(self, lose: Callable[[Machine], None]) -> None:
        async def act(machine: Machine) -> None:
            lose(machine)
            await self._restart(machine)

        await self._where_others_have_everything(act)

    async def _where_others_have_everything(self, act: Callable[[Machine], Coroutine[Any, Any, None]]) -> None:
        """Take data from one machine at a time, and only where other replicas have all of it."""
        if self._plan.replicas < 3 or self._busy:
            return

        async def carefully(machine: Machine) -> None:
            if len(self._in_sync_besides(machine)) >= self._plan.min_in_sync:
                await act(machine)
                await asyncio.sleep(_SETTLED_S)

        await self._with_victim(carefully)

    def _in_sync_besides(self, victim: Machine) -> list[int]:
        """The other nodes that are in sync in every partition, now; none where a partition has no leader."""
        common = {machine.node_id for machine in self._machines if machine.is_up and machine is not victim}
        held: set[TopicPartition] = set()
        led: set[TopicPartition] = set()
        for machine in self._machines:
            if machine.node is not None:
                held |= machine.node.broker.local_replicas.logs.keys()
                led |= machine.node.broker.partitions.keys()
                for partition in machine.node.broker.partitions.values():
                    if partition.leader is not None:
                        common &= set(partition.leader.in_sync)
        if held - led:
            return []  # Only a leader knows which replicas have everything.
        return sorted(common)


FAULTS: dict[str, Callable[[Faults], Coroutine[Any, Any, None]]] = {
    "kill": Faults.kill,
    "power loss": Faults.power_loss,
    "power loss of all": Faults.power_loss_of_all,
    "clean restart": Faults.clean_restart,
    "pause": Faults.pause,
    "partition": Faults.partition,
    "resets": Faults.resets,
    "store cut": Faults.store_cut,
    "store loses answers": Faults.store_loses_answers,
    "store falls silent": Faults.store_falls_silent,
    "watch gap": Faults.watch_gap,
    "lease lost": Faults.lease_lost,
    "disk error": Faults.disk_error,
    "lost disk": Faults.lost_disk,
    "refused link": Faults.refused_link,
    "lying disk": Faults.lying_disk,
    "last one standing": Faults.last_one_standing,
}
DRAWN_APART = {"refused link": 0.2, "lying disk": 0.5, "last one standing": 0.5}
"""Faults that were added later, and the share of runs that meet each: the other draws of a seed stay the same."""
NEED_FSYNC = ("power loss of all",)

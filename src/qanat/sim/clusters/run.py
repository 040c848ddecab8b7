"""One simulated life of a cluster, from one seed: it is started, used and hurt, then healed, and must be whole again.

Which faults there are, how many brokers, how many replicas, how large a segment: all drawn from the seed.
While faults strike, nothing that was acknowledged may be lost (safety). After the last one is healed, every
partition must have a leader and every replica must agree within `CONVERGED_S` (liveness). The history that
clients saw goes to `checker`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from msgspec import Struct, field

from qanat.adapters.memory_store import MemoryStore
from qanat.broker.settings import BrokerSettings
from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.model.errors import QanatError
from qanat.sim.clusters.checker import problems
from qanat.sim.clusters.checks import agreement_problems, believed_leader_problems
from qanat.sim.clusters.clients import Clients
from qanat.sim.clusters.history import History
from qanat.sim.clusters.loop import OWNER, Owner, SimLoop
from qanat.sim.clusters.machine import INTER_BROKER_PORT, PORT, Machine
from qanat.sim.clusters.network import SimNetwork
from qanat.sim.clusters.store import SimStore
from qanat.wire.kafka.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from qanat.wire.kafka.registry import ApiKey

CONVERGED_S = 60.0
_TOPIC = "t"
_CHECK_S = 0.05


class Plan(Struct, frozen=True):
    """What a seed stands for."""

    brokers: int
    replicas: int
    min_in_sync: int
    partitions: int
    segment_bytes: int
    is_synced: bool
    seconds: float
    faults: tuple[str, ...]
    producers: int
    transactors: int

    @staticmethod
    def of(seed: int) -> Plan:
        random = Random(f"plan {seed}")
        brokers = random.choice((1, 2, 3, 3, 3, 3, 4, 5))
        replicas = min(random.choice((1, 2, 3, 3, 3)), brokers)
        # Without fsync before an acknowledgement, losing power may lose what was acknowledged: that is the bargain.
        is_synced = random.random() < 0.8
        kinds = [name for name in FAULTS if is_synced or name not in _NEED_FSYNC]
        faults = tuple(name for name in kinds if random.random() < 0.5) or (random.choice(kinds),)
        return Plan(
            brokers=brokers,
            replicas=replicas,
            min_in_sync=min(2, replicas),
            partitions=random.randint(1, 3),
            segment_bytes=random.choice((1024, 4096, 1024 * 1024)),
            is_synced=is_synced,
            seconds=random.uniform(6, 12),
            faults=faults,
            producers=random.randint(1, 3),
            transactors=random.randint(0, 1),
        )


class Report(Struct):
    """What came of it."""

    seed: int
    plan: Plan
    problems: list[str] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    acknowledged: int = 0
    seen: int = 0
    virtual_s: float = 0.0
    trace: str = ""
    """Hash of everything that clients saw: one seed, one trace."""


class ClusterRun:
    """One seed."""

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        self.seed = seed
        self.plan = plan or Plan.of(seed)
        self._random = Random(f"faults {seed}")
        self.report = Report(seed, self.plan)
        self.machines: list[Machine] = []
        self._busy: set[int] = set()
        """Machines to which something is being done."""

    def run(self) -> Report:
        loop = SimLoop(self.seed)
        loop.set_exception_handler(_ignore)
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(self._live(loop))
        except Exception as fault:  # noqa: BLE001 - whatever ends a life is what is wrong with it
            self.report.problems.append(f"ended by {type(fault).__name__}: {fault}")
        finally:
            self.report.virtual_s = loop.time()
            for machine in self.machines:
                loop.kill(machine.owner)
            asyncio.set_event_loop(None)
            loop.bury()
            self.machines.clear()
        return self.report

    async def _live(self, loop: SimLoop) -> None:
        self._loop = loop
        self._network = loop.network = SimNetwork(loop, self.seed)
        self._truth = MemoryStore()
        plan = self.plan
        for node_id in range(plan.brokers):
            self.machines.append(self._machine(node_id))
        await asyncio.gather(*(machine.start() for machine in self.machines))
        bootstrap = [(machine.host, PORT) for machine in self.machines]
        await self._create_topic(bootstrap)
        clients = Clients(bootstrap, _TOPIC, plan.partitions, self.seed)
        working = [self._client(clients.produce, f"p{number}") for number in range(plan.producers)]
        working += [self._client(clients.transact, f"x{number}") for number in range(plan.transactors)]
        working += [self._client(clients.consume, "c0")]
        watching = asyncio.create_task(self._watch())
        await self._hurt()
        await self._heal()
        await asyncio.sleep(1.0)
        clients.is_over = True
        await asyncio.wait(working)
        await self._converge(clients)
        watching.cancel()
        self._judge(clients.history)

    def _machine(self, node_id: int) -> Machine:
        plan = self.plan
        settings = BrokerSettings(
            host_name=f"machine-{node_id}",
            port=PORT,
            inter_broker_port=INTER_BROKER_PORT,
            broker_session_timeout_ms=2000,
            replica_lag_time_max_ms=1500,
            default_replication_factor=plan.replicas,
            leader_imbalance_check_interval_seconds=3,
        )
        defaults = {"min.insync.replicas": str(plan.min_in_sync)}
        return Machine(
            self._loop,
            self._network,
            SimStore(self._truth, f"{self.seed} {node_id}"),
            node_id,
            self.seed,
            settings,
            defaults,
        )

    async def _create_topic(self, bootstrap: list[tuple[str, int]]) -> None:
        plan = self.plan
        configs = {"segment.bytes": str(plan.segment_bytes), "retention.ms": "-1", "retention.bytes": "-1"}
        if not plan.is_synced:
            configs["flush.messages"] = str(2**63 - 1)
        topic = CreatableTopic(
            _TOPIC,
            plan.partitions,
            plan.replicas,
            [],
            [CreatableTopicConfig(name, value) for name, value in configs.items()],
        )
        async with Cluster(bootstrap) as cluster:
            request = CreateTopicsRequest([topic], 10_000)
            for _ in range(100):
                answer = await cluster.call_controller(ApiKey.CREATE_TOPICS, request, Deadline.after(30.0))
                if not answer.topics[0].error_code:
                    return
                await asyncio.sleep(0.1)  # Whoever was asked does not know all brokers yet.
        raise AssertionError(f"the topic was not created: {answer.topics[0]}")

    def _client(self, act: Callable[[str], Coroutine[Any, Any, None]], name: str) -> asyncio.Task[None]:
        async def live() -> None:
            OWNER.set(Owner(name))
            await act(name)

        return asyncio.create_task(live(), name=name)

    # Faults

    async def _hurt(self) -> None:
        end = self._loop.time() + self.plan.seconds
        doing: list[asyncio.Task[None]] = []
        while self._loop.time() < end:
            await asyncio.sleep(self._random.expovariate(1 / 0.8))
            name = self._random.choice(self.plan.faults)
            self.report.faults[name] = self.report.faults.get(name, 0) + 1
            doing.append(asyncio.create_task(FAULTS[name](self)))
        await asyncio.gather(*doing)

    def _victim(self) -> Machine | None:
        """A machine to which nothing is being done; a majority is left alone most of the time."""
        free = [machine for machine in self.machines if machine.node_id not in self._busy and machine.is_up]
        if not free or (len(self._busy) >= (len(self.machines) + 1) // 2 and self._random.random() < 0.8):
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
        await self._start(machine)

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
        async def act(machine: Machine) -> None:
            machine.lose_power(self._random.choice(("drop_all", "random", "keep_all")))
            await self._restart(machine)

        await self._with_victim(act)

    async def power_loss_of_all(self) -> None:
        machines = [machine for machine in self.machines if machine.node_id not in self._busy and machine.is_up]
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

    async def partition(self) -> None:
        """Cut one machine, or one way, or the cluster in two."""
        names = [machine.host for machine in self.machines]
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

    async def store_cut(self) -> None:
        """The store cannot be reached, by some or by all."""
        some = self._random.sample(self.machines, self._random.randint(1, len(self.machines)))
        for machine in some:
            machine.store.is_cut = True
        await asyncio.sleep(self._random.uniform(0.2, 4.0))
        for machine in some:
            machine.store.is_cut = False

    async def store_loses_answers(self) -> None:
        for machine in self.machines:
            machine.store.loses_answers = True
        await asyncio.sleep(self._random.uniform(0.5, 3.0))
        for machine in self.machines:
            machine.store.loses_answers = False

    async def disk_error(self) -> None:
        """An fsync fails: the directory is given up, and somebody replaces the process after a while."""

        async def act(machine: Machine) -> None:
            machine.disk.fail_next("sync")
            await asyncio.sleep(self._random.uniform(0.5, 3.0))
            machine.kill()
            await self._restart(machine)

        await self._with_victim(act)

    async def lost_disk(self) -> None:
        """A machine comes back empty, as a new one would; only where others have everything."""
        if self.plan.replicas < 3 or self._busy:
            return

        async def act(machine: Machine) -> None:
            if len(self._in_sync_somewhere(machine)) < self.plan.min_in_sync:
                return
            machine.lose_disk()
            await self._restart(machine)
            await asyncio.sleep(3.0)

        await self._with_victim(act)

    def _in_sync_somewhere(self, victim: Machine) -> list[int]:
        """Those besides the victim that every partition counts as in sync, now."""
        common = {machine.node_id for machine in self.machines if machine.is_up and machine is not victim}
        for machine in self.machines:
            if machine.node is not None:
                for partition in machine.node.broker.partitions.values():
                    if partition.leader is not None:
                        common &= set(partition.leader.in_sync)
        return sorted(common)

    # After the faults

    async def _heal(self) -> None:
        self._network.heal()
        for machine in self.machines:
            machine.store.is_cut = machine.store.loses_answers = False
            if machine.owner.is_paused:
                self._loop.resume(machine.owner)
            if not machine.is_up:
                await self._start(machine)

    async def _converge(self, clients: Clients) -> None:
        deadline = self._loop.time() + CONVERGED_S
        while found := agreement_problems(self.machines, _TOPIC, self.plan.partitions):
            if self._loop.time() > deadline:
                self.report.problems += [f"no convergence: {problem}" for problem in found]
                return
            await asyncio.sleep(0.2)
        ends = {}
        for machine in self.machines:
            assert machine.node is not None, "everybody was started"
            for at, partition in machine.node.broker.partitions.items():
                if at.topic == _TOPIC:
                    ends[at.partition] = partition.log.last_stable_offset
        await clients.read_everything(ends)

    async def _watch(self) -> None:
        """Whoever believes to lead must be right about what is committed, at every moment."""
        while True:
            await asyncio.sleep(_CHECK_S)
            self.report.problems += believed_leader_problems(self.machines, self._truth, _TOPIC)
            if len(self.report.problems) > 10:
                return

    def _judge(self, history: History) -> None:
        self.report.problems += problems(history)
        self.report.acknowledged = history.acknowledged
        self.report.seen = sum(len(poll.seen) for poll in history.polls)
        told = hashlib.sha256()
        for send in history.sends:
            told.update(f"{send.client} {send.partition} {send.outcome.value} {send.offset}\n".encode() + send.value)
        for poll in history.polls:
            told.update(f"{poll.client} {poll.partition} {poll.position} {poll.seen}\n".encode())
        told.update(f"{self._loop.time():.6f} {self._loop.steps}".encode())
        self.report.trace = told.hexdigest()


FAULTS: dict[str, Callable[[ClusterRun], Coroutine[Any, Any, None]]] = {
    "kill": ClusterRun.kill,
    "power loss": ClusterRun.power_loss,
    "power loss of all": ClusterRun.power_loss_of_all,
    "clean restart": ClusterRun.clean_restart,
    "pause": ClusterRun.pause,
    "partition": ClusterRun.partition,
    "resets": ClusterRun.resets,
    "store cut": ClusterRun.store_cut,
    "store loses answers": ClusterRun.store_loses_answers,
    "disk error": ClusterRun.disk_error,
    "lost disk": ClusterRun.lost_disk,
}
_NEED_FSYNC = ("power loss", "power loss of all")


def _ignore(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Those who were killed leave futures behind that nobody looks at."""

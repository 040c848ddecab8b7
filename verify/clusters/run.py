"""One run of a simulated cluster from one seed: start, load and faults, then healing and convergence.

The seed decides the faults, the number of brokers and replicas, and the segment size. During faults, no acknowledged
record may be lost (safety). After the last fault, every partition must have a leader and all replicas must agree within
`CONVERGED_S` (liveness). `checker` judges the history that clients saw.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec import Struct, field

from qanat.adapters.memory_store import MemoryStore
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.cluster.store import Operation
from qanat.connection.cluster import Address, Cluster
from qanat.connection.deadline import Deadline
from qanat.log.partition_log import PartitionLog
from qanat.testing.simulation.loop import NO_OWNER, OWNER, Owner, SimLoop
from qanat.testing.simulation.network import SimNetwork
from qanat.wire.kafka.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from qanat.wire.kafka.registry import ApiKey
from verify.clusters.access import TOPIC as GUARDED_TOPIC
from verify.clusters.access import Access, add_users
from verify.clusters.acl_observer import AclObserver
from verify.clusters.background_load import BackgroundLoad
from verify.clusters.checker import problems
from verify.clusters.checks import agreement_problems, believed_leader_problems, eviction_problems
from verify.clusters.clients import Clients
from verify.clusters.faults import Faults
from verify.clusters.history import History
from verify.clusters.ledger import Ledger
from verify.clusters.machine import INTER_BROKER_PORT, PORT, Machine
from verify.clusters.plan import Plan
from verify.clusters.store import SimStore
from verify.clusters.unhandled import UnhandledExceptions

CONVERGED_S = 60.0
_TOPIC = "t"
_CHECK_S = 0.05
_PROBLEMS_KEPT = 10
_LOOKS = 40
"""Times that a run checks whether clients make progress in a healed cluster."""


class Report(Struct):
    """The result of one run."""

    seed: int
    plan: Plan
    problems: list[str] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    acknowledged: int = 0
    seen: int = 0
    refusals: int = 0
    """Requests that ACLs denied."""
    rule_changes: int = 0
    """Acknowledged changes of ACLs."""
    virtual_s: float = 0.0
    trace: str = ""
    """Hash of everything that clients saw: one seed, one trace."""


class ClusterRun:
    """The run of one seed."""

    def __init__(self, seed: int, plan: Plan | None = None, *, stops_early: bool = False) -> None:
        self.seed = seed
        self._stops_early = stops_early
        """Whether the run ends at the first problem inside the machines."""
        self.plan = plan or Plan.of(seed)
        self.report = Report(seed, self.plan)
        self.machines: list[Machine] = []
        self._enough = asyncio.Event()
        self.topic_configs: dict[str, str] = {}
        """Further settings of the topic."""

    def run(self) -> Report:
        loop = SimLoop(self.seed, self.plan.work_s)
        unhandled = UnhandledExceptions(self._note_unless_many)
        loop.set_exception_handler(unhandled.on_loop)
        asyncio.set_event_loop(loop)
        gc.disable()  # A run is short, and `abandon` collects its garbage.
        try:
            with unhandled:
                loop.run_until_complete(self._live_until_enough(loop))
                loop.report_failed(NO_OWNER)
        except Exception as fault:  # noqa: BLE001 - any exception that ends a run is a problem of the run
            self.report.problems.append(f"ended by {type(fault).__name__}: {fault}")
        finally:
            self.report.virtual_s = loop.time()
            for machine in self.machines:
                loop.kill(machine.owner)
            asyncio.set_event_loop(None)
            loop.abandon()
            self.machines.clear()
            gc.enable()
        return self.report

    async def _live_until_enough(self, loop: SimLoop) -> None:
        living, enough = loop.create_task(self._live(loop)), loop.create_task(self._enough.wait())
        await asyncio.wait((living, enough), return_when=asyncio.FIRST_COMPLETED)
        if living.done():
            living.result()

    async def _boot(self, loop: SimLoop) -> list[Address]:
        """Start every machine and create the topic."""
        self._loop = loop
        self._network = loop.network = SimNetwork(loop, self.seed, slow_share=self.plan.slow_share)
        self._truth = MemoryStore()
        self._ledger = Ledger(self.machines, self._truth, _TOPIC, is_synced=self.plan.is_synced)
        self._acl_observer = AclObserver(loop, self.machines, self._truth) if self.plan.has_users else None
        if self.plan.has_users:
            await add_users(self._truth)
        for node_id in range(self.plan.brokers):
            self.machines.append(self._machine(node_id))
        await asyncio.gather(*(machine.start() for machine in self.machines))
        bootstrap = [(machine.host, PORT) for machine in self.machines]
        await self._create_topic(bootstrap, _TOPIC, self.plan.partitions)
        return bootstrap

    async def _live(self, loop: SimLoop) -> None:
        plan, bootstrap = self.plan, await self._boot(loop)
        clients = Clients(bootstrap, _TOPIC, plan.partitions, self.seed, reads_from_followers=plan.reads_from_followers)
        working = [self._client(clients.produce, f"p{number}") for number in range(plan.producers)]
        working += [self._client(clients.transact, f"x{number}") for number in range(plan.transactors)]
        working += [self._client(clients.transact, f"x0-{number}") for number in range(plan.rivals)]
        working += [self._client(clients.consume, "c0")]
        background_load = BackgroundLoad(bootstrap, _TOPIC, plan.partitions, plan.replicas, self.seed)
        if plan.has_group:
            working.append(self._client(background_load.commit, "g0"))
        if plan.has_operator:
            working += [self._client(background_load.move, "o0"), self._client(background_load.recreate, "o1")]
        access = await self._access(bootstrap)
        if access is not None:
            working += [self._client(access.fill, "a0"), self._client(access.administer, "a1")]
            working += [self._client(access.write, "writer"), self._client(access.read, "reader")]
        watching = asyncio.create_task(self._watch())
        faults = Faults(loop, self._network, self._truth, self.machines, plan, self.seed)
        self.report.faults = faults.counts
        await faults.inject()
        await faults.heal()
        await asyncio.sleep(1.0)
        for _ in range(_LOOKS):
            if clients.history.acknowledged:
                break
            await asyncio.sleep(0.5)  # Clients wait for a response of a machine that is down, or has just restarted.
        clients.is_over = background_load.is_over = True
        if access is not None:
            access.is_over = True
        await asyncio.wait(working)
        await self._converge(clients)
        await background_load.check_at_the_end()
        if access is not None:
            await access.check_at_the_end()
            self.report.refusals, self.report.rule_changes = access.refusals, access.changes
        watching.cancel()
        self.report.problems += background_load.problems
        self._judge(clients.history)

    async def _access(self, bootstrap: list[Address]) -> Access | None:
        """Users with ACLs, and their topic, where the plan has them."""
        if self._acl_observer is None:
            return None
        await self._create_topic(bootstrap, GUARDED_TOPIC, 1)
        access = Access(bootstrap, self.machines, self._acl_observer, self._note_unless_many, self.seed)
        await access.prepare()
        return access

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
            replica_selector_class="RackAwareReplicaSelector" if plan.reads_from_followers else None,
        )
        defaults = {"min.insync.replicas": str(plan.min_in_sync)}
        store = SimStore(self._truth, f"{self.seed} {node_id}")
        store.on_stored = self._note_stored
        machine = Machine(
            self._loop,
            self._network,
            store,
            node_id,
            self.seed,
            settings,
            defaults,
            has_users=plan.has_users,
        )
        machine.on_started = self._note_started
        machine.on_high_watermark = lambda log: self._note_committed(machine, log)
        return machine

    async def _create_topic(self, bootstrap: list[Address], name: str, partitions: int) -> None:
        plan = self.plan
        configs = {"segment.bytes": str(plan.segment_bytes), "retention.ms": "-1", "retention.bytes": "-1"}
        configs |= self.topic_configs
        if not plan.is_synced:
            configs["flush.messages"] = str(2**63 - 1)
        topic = CreatableTopic(
            name,
            partitions,
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
                await asyncio.sleep(0.1)  # The controller does not know all brokers yet.
        raise AssertionError(f"the topic was not created: {answer.topics[0]}")

    def _client(self, act: Callable[[str], Coroutine[Any, Any, None]], name: str) -> asyncio.Task[None]:
        async def live() -> None:
            OWNER.set(Owner(name))
            await act(name)

        return asyncio.create_task(live(), name=name)

    # After the faults

    async def _converge(self, clients: Clients) -> None:
        for machine in self.machines:
            if machine.lied_at:
                await machine.scrub()  # Recovery does not read sealed segments: scrubbing finds damage in them.
        deadline = self._loop.time() + CONVERGED_S
        while found := agreement_problems(self.machines, _TOPIC, self.plan.partitions):
            if self._loop.time() > deadline:
                self.report.problems += [f"no convergence: {problem}" for problem in found]
                return
            await asyncio.sleep(0.2)
        ends = {}
        for machine in self.machines:
            assert machine.node is not None, "every machine was started"
            for at, partition in machine.node.broker.partitions.items():
                if at.topic == _TOPIC:
                    ends[at.partition] = partition.log.last_stable_offset
        await clients.read_everything(ends)

    async def _watch(self) -> None:
        """Check repeatedly: a broker that believes to lead is right about what is committed."""
        while True:
            await asyncio.sleep(_CHECK_S)
            is_synced = self.plan.is_synced
            found = believed_leader_problems(self.machines, self._truth, _TOPIC, is_synced=is_synced)
            acls = [] if self._acl_observer is None else self._acl_observer.look()
            self._note(found + self._ledger.all_missing() + acls)
            if len(self.report.problems) > _PROBLEMS_KEPT:
                return

    def _note_committed(self, machine: Machine, log: PartitionLog) -> None:
        """Check the same at every step in which a high watermark moves (C24)."""
        is_alive = machine.owner is OWNER.get()
        if log.topic_partition.topic == _TOPIC and is_alive and len(self.report.problems) <= _PROBLEMS_KEPT:
            self._note(self._ledger.committed(machine, log))

    def _note_unless_many(self, found: list[str]) -> None:
        if len(self.report.problems) <= _PROBLEMS_KEPT:
            self._note(found)

    def _note_started(self, machine: Machine) -> None:
        if self._acl_observer is not None:
            self._note_unless_many(self._acl_observer.started(machine))

    def _note_stored(self, operations: Sequence[Operation]) -> None:
        if self._acl_observer is not None:
            self._acl_observer.note_stored(operations)
        if len(self.report.problems) <= _PROBLEMS_KEPT:
            self._note(self._ledger.stored(operations) + eviction_problems(self.machines, operations))

    def _note(self, found: list[str]) -> None:
        self.report.problems += found
        if self.report.problems and self._stops_early:
            self._enough.set()

    def _judge(self, history: History) -> None:
        self.report.problems += problems(history)
        self.report.acknowledged = history.acknowledged
        self.report.seen = sum(len(poll.seen) for poll in history.polls)
        trace = hashlib.sha256()
        for send in history.sends:
            trace.update(f"{send.client} {send.partition} {send.outcome.value} {send.offset}\n".encode() + send.value)
        for poll in history.polls:
            trace.update(f"{poll.client} {poll.partition} {poll.position} {poll.seen}\n".encode())
        trace.update(f"{self._loop.time():.6f} {self._loop.steps}".encode())
        self.report.trace = trace.hexdigest()

"""Real brokers on a simulated event loop and network, in memory: for tests of clients on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import copy_context
from types import TracebackType

from qanat.adapters.memory_store import MemoryStore
from qanat.adapters.storage_engines import MemoryEngine
from qanat.app.node.node import Node
from qanat.app.settings.node_settings import NodeSettings
from qanat.broker.replicas.partition import Partition
from qanat.broker.runtime import cooperative_yield
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.groups.settings import GroupSettings
from qanat.log.directories.directory import LogDirectory
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.runtime.maintenance import Maintenance
from qanat.log.settings import DirectorySettings
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.security.settings import SecuritySettings
from qanat.testing.faults import Faults
from qanat.testing.simulation.loop import OWNER, Owner, SimFsyncThread, SimLoop
from qanat.testing.simulation.network import SimNetwork
from qanat.transactions.settings import TransactionSettings

HOST, PORT, INTER_BROKER_PORT = "broker", 9092, 19092
REPLICAS_MAX = 3
_LOOK_S = 0.05
_ELECTED_S = 60.0
EPOCH_MS = 1_700_000_000_000
"""The wall clock when a simulation begins."""


class SimulatedBroker:
    """One of some brokers. Its clock, its network and its threads are the loop's."""

    def __init__(
        self, loop: SimLoop, network: SimNetwork, store: MemoryStore, faults: Faults, number: int = 1, count: int = 1
    ) -> None:
        """Brokers of one cluster, numbered from 1, have the store and the planned faults in common."""
        self._loop = loop
        self._network = network
        self._store = store
        self._count = count
        self._engine = MemoryEngine(DirectorySettings())
        self._starts = 0
        self.faults = faults
        self.node_id = number
        self.host = HOST if number == 1 else f"{HOST}-{number}"
        self.owner = Owner(self.host)
        self.node: Node | None = None

    def __repr__(self) -> str:
        return f"<SimulatedBroker {self.node_id} {'up' if self.node else 'down'}>"

    @property
    def address(self) -> str:
        return f"{self.host}:{PORT}"

    async def start(self) -> None:
        """Return once it serves."""
        self._starts += 1
        self.owner = Owner(self.host)
        seed = self._starts + 1000 * (self.node_id - 1)
        node = Node(self._settings(), self._on_fault, store=self._store, engine=self._engine, logs=_SimLogs, seed=seed)
        context = copy_context()
        context.run(OWNER.set, self.owner)
        await self._loop.create_task(node.__aenter__(), context=context)
        node.listener.dispatcher.interceptor = self.faults.intercept
        self.node = node

    async def stop(self) -> None:
        """Shut down cleanly: a restart finds everything."""
        node, self.node = self.node, None
        if node is not None:
            context = copy_context()
            context.run(OWNER.set, self.owner)
            with suppress(QanatError):
                await self._loop.create_task(node.__aexit__(), context=context)
            self._end()

    def kill(self) -> None:
        """End it as `kill -9` does: what it wrote stays, its connections are reset."""
        self.node = None
        self._end()
        self._engine.files.end_locks()

    def _end(self) -> None:
        self._loop.kill(self.owner)
        self._network.forget(self.owner, is_silent=False)

    def _settings(self) -> NodeSettings:
        replicas = min(REPLICAS_MAX, self._count)
        return NodeSettings(
            data_dir="/data",
            node_id=self.node_id,
            storage_engine="memory",
            broker=BrokerSettings(
                host_name=self.host,
                port=PORT,
                inter_broker_port=INTER_BROKER_PORT if self._count > 1 else None,
                default_replication_factor=replicas,
            ),
            directory=DirectorySettings(),
            groups=GroupSettings(
                group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=1, group_min_session_timeout_ms=1
            ),
            transactions=TransactionSettings(transaction_state_log_num_partitions=1),
            # Clients stamp records with this computer's clock, which the broker's does not follow.
            topic_defaults={
                "message.timestamp.after.max.ms": str(2**63 - 1),
                "min.insync.replicas": str(max(1, replicas - 1)),
            },
            security=SecuritySettings(allow_unauthenticated_clients=True),  # The network is simulated.
        )

    def _on_fault(self, connection: object, fault: BaseException) -> None:
        """The broker closed a client's connection: because of the client, or because of a bug."""
        if not isinstance(fault, QanatError):
            self._loop.call_exception_handler({"message": "bug while serving a client", "exception": fault})


class SimulatedBrokers:
    """All brokers of a run: one, or a cluster with up to three replicas of everything."""

    def __init__(self, loop: SimLoop, network: SimNetwork, count: int) -> None:
        self._loop = loop
        self.faults = Faults()
        store = MemoryStore()
        self._all = [SimulatedBroker(loop, network, store, self.faults, number + 1, count) for number in range(count)]

    def __iter__(self) -> Iterator[SimulatedBroker]:
        return iter(self._all)

    def __getitem__(self, index: int) -> SimulatedBroker:
        return self._all[index]

    @property
    def addresses(self) -> str:
        return ",".join(broker.address for broker in self._all)

    @property
    def up(self) -> list[SimulatedBroker]:
        """Those that run; never none: raises `LookupError` instead."""
        up = [broker for broker in self._all if broker.node is not None]
        if not up:
            raise LookupError("no broker runs: start one with start_broker()")
        return up

    async def start(self) -> None:
        """Start those that are down; return once all serve, and know each other."""
        for broker in self._all:
            if broker.node is None:
                await broker.start()
        while not self._is_whole():  # noqa: ASYNC110 - each has an image of its own
            await asyncio.sleep(_LOOK_S)

    def _is_whole(self) -> bool:
        return all(len(_node(one).broker.metadata.image.brokers) == len(self._all) for one in self._all)

    def leader(self, topic: str, partition: int) -> SimulatedBroker | None:
        """The broker that leads; None while nobody does."""
        for broker in self.up:
            image = _node(broker).broker.metadata.image
            if topic not in image.topics:
                raise LookupError(f"there is no topic {topic!r}; topics are {sorted(image.topics)}")
            found = image.topics[topic]
            if not 0 <= partition < len(found.partitions):
                raise LookupError(f"topic {topic!r} has partitions 0 to {len(found.partitions) - 1}, not {partition}")
            # Of brokers that disagree, the one that leads by its own account is right.
            if broker.node_id == image.state(found, partition).leader:
                return broker
        return None

    async def leading(self, topic: str) -> list[Partition]:
        """The leader of each partition of a topic, once each has one; raises `TimeoutError` after a minute."""
        image = _node(self.up[0]).broker.metadata.image
        if topic not in image.topics:
            raise LookupError(f"there is no topic {topic!r}; topics are {sorted(image.topics)}")
        end_s = self._loop.time() + _ELECTED_S
        found: list[Partition] = []
        for number in range(len(image.topics[topic].partitions)):
            while (leading := self._leading(TopicPartition(topic, number))) is None:
                if self._loop.time() >= end_s:
                    raise TimeoutError(f"{topic}-{number} has no leader: start a broker that was stopped or killed")
                await asyncio.sleep(_LOOK_S)
            found.append(leading)
        return found

    def _leading(self, at: TopicPartition) -> Partition | None:
        broker = self.leader(at.topic, at.partition)
        return None if broker is None else _node(broker).broker.partitions.get(at)


def _node(broker: SimulatedBroker) -> Node:
    assert broker.node is not None, "the broker is stopped"
    return broker.node


class _SimLogs:
    """A log directory with its runtime on a simulated loop."""

    def __init__(self, directory: LogDirectory) -> None:
        self._runtime = LogRuntime(directory, wall_ms, SimFsyncThread())
        self._maintenance = Maintenance(self._runtime, _no_pause)

    async def __aenter__(self) -> LogRuntime:
        await self._runtime.start()
        self._maintenance.start()
        return self._runtime

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._maintenance.close()
        await self._runtime.close()


def wall_ms() -> int:
    return EPOCH_MS + round(asyncio.get_running_loop().time() * 1000)


def _no_pause(seconds: float) -> None:
    """The loop decides how long work on a thread takes."""


def use_clock(loop: SimLoop) -> Callable[[], None]:
    """Let brokers yield by the loop's clock; returns what restores the real one."""
    before, cooperative_yield.clock = cooperative_yield.clock, loop.time

    def restore() -> None:
        cooperative_yield.clock = before

    return restore

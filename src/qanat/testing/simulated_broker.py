"""A real broker on a simulated event loop and network, in memory: for tests of clients on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from types import TracebackType

from qanat.adapters.memory_store import MemoryStore
from qanat.adapters.storage_engines import MemoryEngine
from qanat.app.node.node import Node
from qanat.app.settings.node_settings import NodeSettings
from qanat.broker.runtime import cooperative_yield
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.groups.settings import GroupSettings
from qanat.log.directories.directory import LogDirectory
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.runtime.maintenance import Maintenance
from qanat.log.settings import DirectorySettings
from qanat.model.errors import QanatError
from qanat.security.settings import SecuritySettings
from qanat.testing.faults import Faults
from qanat.testing.simulation.loop import OWNER, Owner, SimFsyncThread, SimLoop
from qanat.testing.simulation.network import SimNetwork
from qanat.transactions.settings import TransactionSettings

HOST, PORT = "broker", 9092
EPOCH_MS = 1_700_000_000_000
"""The wall clock when a simulation begins."""


class SimulatedBroker:
    """One broker. Its clock, its network and its threads are the loop's."""

    def __init__(self, loop: SimLoop, network: SimNetwork, seed: int) -> None:
        self._loop = loop
        self._network = network
        self._seed = seed
        self._store = MemoryStore()
        self._engine = MemoryEngine(DirectorySettings())
        self._starts = 0
        self.owner = Owner(HOST)
        self.node: Node | None = None
        self.faults = Faults()

    @property
    def address(self) -> str:
        return f"{HOST}:{PORT}"

    async def start(self) -> None:
        """Return once it serves."""
        self._starts += 1
        self.owner = Owner(HOST)
        node = Node(
            self._settings(), self._on_fault, store=self._store, engine=self._engine, logs=_SimLogs, seed=self._starts
        )
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
            self._loop.kill(self.owner)
            self._network.forget(self.owner, is_silent=False)

    def _settings(self) -> NodeSettings:
        return NodeSettings(
            data_dir="/data",
            node_id=1,
            storage_engine="memory",
            broker=BrokerSettings(host_name=HOST, port=PORT),
            directory=DirectorySettings(),
            groups=GroupSettings(
                group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=1, group_min_session_timeout_ms=1
            ),
            transactions=TransactionSettings(transaction_state_log_num_partitions=1),
            # Clients stamp records with this computer's clock, which the broker's does not follow.
            topic_defaults={"message.timestamp.after.max.ms": str(2**63 - 1)},
            security=SecuritySettings(allow_unauthenticated_clients=True),  # The network is simulated.
        )

    def _on_fault(self, connection: object, fault: BaseException) -> None:
        """The broker closed a client's connection: because of the client, or because of a bug."""
        if not isinstance(fault, QanatError):
            self._loop.call_exception_handler({"message": "bug while serving a client", "exception": fault})


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

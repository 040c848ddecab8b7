"""One simulated host: a disk that may lose power, a connection to the store, and a broker that is started and killed.

The broker is the product's own (`qanat.app.node.node`): the same modules and real frames, on a simulated loop, network,
disk and store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from types import TracebackType

from qanat.adapters.memory_catalogue import MemoryCatalogue
from qanat.app.node.node import Node
from qanat.app.settings.listeners import ListenerAddress
from qanat.app.settings.node_settings import NodeSettings
from qanat.broker.controller import controller_loop
from qanat.broker.metadata import image_watcher
from qanat.broker.runtime import cooperative_yield
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.groups.settings import GroupSettings
from qanat.log.directories.directory import LogDirectory
from qanat.log.files import Files
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.runtime.maintenance import Maintenance
from qanat.log.settings import DirectorySettings
from qanat.model.errors import QanatError
from qanat.security.settings import SecuritySettings
from qanat.servers.kafka.connection import KafkaConnection
from qanat.testing.simulation.crash_image import CrashMode
from qanat.testing.simulation.disk import SimDisk
from qanat.testing.simulation.loop import OWNER, Owner, SimFsyncThread, SimLoop
from qanat.testing.simulation.network import SimNetwork
from qanat.transactions.settings import TransactionSettings
from verify.clusters.store import SimStore

EPOCH_MS = 1_700_000_000_000
"""The wall clock when a simulation begins."""
PORT, USERS_PORT, INTER_BROKER_PORT = 9092, 9093, 19092
_COORDINATORS = 3
"""Partitions of each internal topic: few, so that each gets many records."""
RECONCILE_S = 5.0
"""Instead of the product's half a minute: a run takes some seconds."""
_SETTLED_S = 1.0
"""Instead of the product's ten seconds."""


class SimEngine:
    """A storage engine on a simulated disk. The catalogue of a clean shutdown is lost with the process, which costs
    only time."""

    def __init__(self, disk: SimDisk) -> None:
        self.files: Files = disk

    def catalogue(self, directory: str) -> MemoryCatalogue:
        return MemoryCatalogue()


class SimLogs:
    """A log directory with its runtime on a simulated loop."""

    def __init__(self, directory: LogDirectory) -> None:
        self.runtime = LogRuntime(directory, wall_ms, SimFsyncThread())
        self.maintenance = Maintenance(self.runtime, _no_pause)

    async def __aenter__(self) -> LogRuntime:
        await self.runtime.start()
        self.maintenance.start()
        return self.runtime

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.maintenance.close()
        await self.runtime.close()


def wall_ms() -> int:
    return EPOCH_MS + round(asyncio.get_running_loop().time() * 1000)


def _no_pause(seconds: float) -> None:
    """The loop decides how long work on a thread takes."""


class Machine:
    """A host, and the broker that runs on it."""

    def __init__(
        self,
        loop: SimLoop,
        network: SimNetwork,
        store: SimStore,
        node_id: int,
        seed: int | str,
        settings: BrokerSettings,
        topic_defaults: Mapping[str, str],
        reconcile_s: float = RECONCILE_S,
        *,
        has_users: bool = False,
    ) -> None:
        """With `has_users`, ACLs decide, and there is a listener for clients that authenticate; all others are super
        users."""
        cooperative_yield.clock = loop.time  # When a handler yields must not depend on how fast this computer is.
        image_watcher.RECONCILE_S = reconcile_s
        controller_loop.SETTLED_S = _SETTLED_S
        self.host = f"machine-{node_id}"
        self.node_id = node_id
        self.store = store
        self._loop = loop
        self._network = network
        self._seed = seed
        self._settings = settings
        self._topic_defaults = topic_defaults
        self._has_users = has_users
        self.disk = SimDisk(f"{seed} {node_id}", is_traced=False)
        self.owner = Owner(self.host)
        self.node: Node | None = None
        self.starts = 0
        self.start_s = 0.0
        """When it was last started."""
        self.gaps_at_start = 0
        self.lied_at = 0
        """The store's revision when the disk last returned changed: earlier ISR members may lack records."""

        self.on_high_watermark: Callable[[PartitionLog], None] | None = None
        """Called whenever a high watermark on this machine has moved; set before it starts."""
        self.on_started: Callable[[Machine], None] | None = None
        """Called as soon as the broker serves."""

    def _logs(self, directory: LogDirectory) -> SimLogs:
        directory.state.on_high_watermark = self.on_high_watermark
        return SimLogs(directory)

    @property
    def is_up(self) -> bool:
        return self.node is not None and not self.owner.is_dead

    async def start(self) -> None:
        """Start the broker; returns when it serves, raises where it cannot."""
        self.starts += 1
        self.start_s, self.gaps_at_start = self._loop.time(), self.store.gaps
        self.owner = Owner(self.host)
        context = copy_context()
        context.run(OWNER.set, self.owner)
        booting = self._loop.create_task(self._boot(), context=context)
        await asyncio.wait([booting])
        if not booting.cancelled() and (fault := booting.exception()) is not None:
            raise fault

    async def _boot(self) -> None:
        settings = NodeSettings(
            data_dir="/data",
            node_id=self.node_id,
            storage_engine="memory",
            broker=self._settings,
            directory=DirectorySettings(),
            groups=GroupSettings(
                group_initial_rebalance_delay_ms=0,
                offsets_topic_num_partitions=_COORDINATORS,
                share_coordinator_state_topic_num_partitions=_COORDINATORS,
            ),
            transactions=TransactionSettings(transaction_state_log_num_partitions=_COORDINATORS),
            security=self._security(),
            listeners=self._listeners(),
            topic_defaults=self._topic_defaults,
        )
        node = Node(
            settings,
            self._on_fault,
            store=self.store,
            engine=SimEngine(self.disk),
            logs=self._logs,
            seed=hash_free_seed(self._seed, self.node_id, self.starts),
        )
        await node.__aenter__()
        self.node = node
        if self.on_started is not None:
            self.on_started(self)

    def _security(self) -> SecuritySettings:
        if not self._has_users:
            return SecuritySettings(allow_unauthenticated_clients=True)  # The network is simulated.
        return SecuritySettings(
            allow_unauthenticated_clients=True,
            security_inter_broker_protocol="PLAINTEXT",
            sasl_enabled_mechanisms="SCRAM-SHA-256",
            authorizer_class_name="StandardAuthorizer",
            super_users="User:ANONYMOUS",
        )

    def _listeners(self) -> tuple[ListenerAddress, ...]:
        if not self._has_users:
            return ()
        return (
            ListenerAddress("PLAINTEXT", self.host, PORT, "PLAINTEXT"),
            ListenerAddress("USERS", self.host, USERS_PORT, "SASL_PLAINTEXT"),
        )

    def _on_fault(self, connection: KafkaConnection, fault: BaseException) -> None:
        """The broker closed a client's connection: because of the client, or because of a bug."""
        if not isinstance(fault, QanatError):
            self._loop.call_exception_handler({"message": "bug while serving a client", "exception": fault})

    async def stop(self) -> None:
        """Shut the broker down cleanly."""
        node, self.node = self.node, None
        if node is not None:
            context = copy_context()
            context.run(OWNER.set, self.owner)
            with suppress(QanatError):  # Its disk may have failed: then it stops without writing everything.
                await self._loop.create_task(node.__aexit__(), context=context)
            self._end(is_silent=False)

    async def scrub(self) -> None:
        """Verify all checksums now, as maintenance does some time after every start."""
        if self.node is not None:
            context = copy_context()
            context.run(OWNER.set, self.owner)
            scrubbing = Maintenance(self.node.broker.runtime, _no_pause).scrub()
            with suppress(QanatError):  # Its disk may have failed.
                await self._loop.create_task(scrubbing, context=context)

    def kill(self) -> None:
        """Kill the process: its written data stays, its connections are reset."""
        self._end(is_silent=False)
        self.disk = self.disk.crash("keep_all")

    def lose_power(self, mode: CrashMode) -> None:
        """Cut the power: unflushed data may be lost, and peers do not learn that the connections are gone."""
        self._end(is_silent=True)
        self.disk = self.disk.crash(mode)

    def lose_disk(self) -> None:
        """Kill the process and replace the disk with an empty one."""
        self._end(is_silent=False)
        self.disk = SimDisk(f"{self._seed} {self.node_id} {self.starts}", is_traced=False)

    def _end(self, *, is_silent: bool) -> None:
        self.node = None
        self._loop.kill(self.owner)
        self._network.forget(self.owner, is_silent=is_silent)


def hash_free_seed(seed: int | str, node_id: int, starts: int) -> int:
    """A seed that does not depend on `hash()`."""
    return int.from_bytes(f"{seed} {node_id} {starts}".encode()[-7:])

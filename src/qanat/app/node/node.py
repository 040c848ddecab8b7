"""One node, put together: store, logs, broker and doors, started in order and stopped in reverse.

    BASE/metadata.db        the embedded metadata store, shared by all brokers of this host
    BASE/broker-<id>/       this broker's logs

With the `memory` engine nothing is written anywhere. A node that has a name instead of a
number gets one from the store (`node_names`).
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec import Struct, field

from qanat.adapters.storage_engines import FileEngine
from qanat.app.node.compose import Logs, open_log_directory
from qanat.app.node.node_names import number_of
from qanat.app.settings.metadata import MetadataSettings
from qanat.broker.broker import Broker
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.cluster import keys, values
from qanat.cluster.format_levels import first_level
from qanat.cluster.store import Absent, MetadataStore, Put
from qanat.groups.assignors.assignor import Assignor
from qanat.groups.assignors.built_in import NAMES
from qanat.groups.settings import GroupSettings
from qanat.log.directories.directory import LogDirectory
from qanat.log.directories.storage_engine import StorageEngine
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.settings import DirectorySettings
from qanat.model.errors import AddressInUseError, ReadOnlyError, StorageError
from qanat.security.settings import SecuritySettings
from qanat.servers.http.settings import NOT_SERVED, HttpSettings
from qanat.servers.kafka.connection import KafkaConnection
from qanat.servers.kafka.listener import KafkaListener
from qanat.telemetry.events import log_event
from qanat.transactions.settings import TransactionSettings

if TYPE_CHECKING:
    from qanat.servers.http.listener import HttpListener
    from qanat.servers.listener_security import ListenerSecurity
    from qanat.servers.metrics.listener import MetricsListener

_EVERYWHERE = ("", "0.0.0.0", "::")

OnFault = Callable[[KafkaConnection, BaseException], None]


class NodeSettings(Struct, frozen=True):
    """Everything that one node is told."""

    data_dir: str = "data"
    node_id: int | str = 0
    """A number, or a name that stands for one."""
    storage_engine: str = "file"
    metadata: MetadataSettings = field(default_factory=MetadataSettings)
    broker: BrokerSettings = field(default_factory=BrokerSettings)
    directory: DirectorySettings = field(default_factory=DirectorySettings)
    groups: GroupSettings = field(default_factory=GroupSettings)
    transactions: TransactionSettings = field(default_factory=TransactionSettings)
    security: SecuritySettings = field(default_factory=SecuritySettings)
    http: HttpSettings = field(default_factory=lambda: HttpSettings(http_port=NOT_SERVED))
    topic_defaults: Mapping[str, str] = field(default_factory=dict)
    """Topic settings that hold where a topic has none of its own."""


def _ignore(connection: KafkaConnection, fault: BaseException) -> None:
    pass


class Node:
    """A broker with everything it stands on. `async with Node(settings) as node:`."""

    def __init__(
        self,
        settings: NodeSettings,
        on_fault: OnFault = _ignore,
        *,
        store: MetadataStore | None = None,
        engine: StorageEngine | None = None,
        logs: Callable[[LogDirectory], AbstractAsyncContextManager[LogRuntime]] = Logs,
        seed: int | None = None,
    ) -> None:
        """A store or an engine that is given outlives the node: whoever brings it closes it.

        `logs` puts a data directory to work; `seed` decides whatever the broker leaves to chance.
        """
        self._logs = logs
        self._seed = seed
        self.settings = settings
        self._on_fault = on_fault
        self._given_store = store
        self._engine = engine
        self._opened = AsyncExitStack()
        self.node_id = -1
        self.cluster_id = ""
        self.directory: LogDirectory
        self.broker: Broker
        self.listener: KafkaListener
        self.metrics: MetricsListener | None = None
        self.http: HttpListener | None = None

    async def __aenter__(self) -> Node:
        async with AsyncExitStack() as opened:
            await self._open(opened)
            self._opened = opened.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._opened.aclose()

    @property
    def address(self) -> str:
        """What clients connect to."""
        return f"{self.settings.broker.host_name}:{self.listener.port}"

    @property
    def advertised_address(self) -> str:
        """What clients are told to connect to."""
        listener = self._advertised()
        return f"{listener.host}:{listener.port}"

    async def _open(self, opened: AsyncExitStack) -> None:
        settings = self.settings
        store = self._given_store
        if store is None:
            store = await self._open_store()
            opened.push_async_callback(store.close)
        self.node_id = await number_of(store, settings.node_id)
        self.cluster_id = await _cluster_id(store, None if settings.storage_engine == "memory" else settings)
        self.directory = open_log_directory(
            f"{settings.data_dir}/broker-{self.node_id}",
            engine=self._engine or _engine(settings),
            settings=settings.directory,
            cluster_id=self.cluster_id,
            node_id=self.node_id,
        )
        runtime = await opened.enter_async_context(self._logs(self.directory))
        self.broker = Broker(
            settings.broker,
            self.node_id,
            store,
            runtime,
            group_settings=settings.groups,
            assignors=assignors(settings.groups.assignor_names),
            transaction_settings=settings.transactions,
            topic_defaults=settings.topic_defaults,
            seed=self._seed,
        )
        gate = _gate(settings.security)
        self.listener = KafkaListener(self.broker, self._on_fault, gate)
        await self.listener.bind()
        inter_broker = await self._open_inter_broker(opened)
        opened.push_async_callback(self.broker.close)
        await self.broker.start(self.cluster_id, [self._advertised()], inter_broker)
        opened.push_async_callback(self.listener.close)
        await self.listener.serve()
        opened.push_async_callback(self.broker.controlled_shutdown.hand_over)
        if settings.broker.metrics_port is not None:
            await self._open_metrics(opened, settings.broker.metrics_port)
        if settings.http.http_port != NOT_SERVED:
            await self._open_http(opened, gate)

    async def _open_inter_broker(self, opened: AsyncExitStack) -> values.Listener | None:
        """The brokers' own listener answers before we are registered: who finds us there finds somebody."""
        broker = self.settings.broker
        if broker.inter_broker_port is None:
            return None
        if broker.inter_broker_port == self.listener.port:
            # Both can be bound as long as neither is listened on: the kernel would not tell.
            raise AddressInUseError(
                f"brokers cannot be heard on {broker.inter_broker_port}, which is the port of clients: choose another "
                "inter.broker.port"
            )
        listener = KafkaListener(self.broker, self._on_fault, inter_broker_port=broker.inter_broker_port)
        await listener.bind()
        opened.push_async_callback(listener.close)
        await listener.serve()
        host = broker.advertised_host_name or reachable_host(broker.host_name)
        return values.Listener(name="INTERNAL", host=host, port=listener.port)

    async def _open_metrics(self, opened: AsyncExitStack, port: int) -> None:
        # Imported late: most nodes of a test or a demonstration serve none.
        from qanat.servers.metrics.listener import MetricsListener

        self.metrics = MetricsListener(self.broker, self.listener, self.settings.broker.metrics_host_name, port)
        await self.metrics.start()
        opened.push_async_callback(self.metrics.close)

    async def _open_http(self, opened: AsyncExitStack, gate: ListenerSecurity | None) -> None:
        # Imported beside the loop, which answers Kafka clients meanwhile.
        await asyncio.to_thread(import_module, "qanat.servers.http.listener")
        from qanat.servers.http.listener import HttpListener
        from qanat.servers.metrics.text import MetricsText

        metrics = MetricsText(self.broker, self.listener)
        http = HttpListener(self.broker, self.listener.dispatcher, self.settings.http, metrics, gate)
        try:
            await http.start()
        except AddressInUseError as fault:
            if self.settings.http.http_port is not None:
                raise
            log_event("HTTP is not served", level="warning", reason=str(fault))
            return
        self.http = http
        if self.metrics is not None:
            self.metrics.metrics.http = http.context.counters
        opened.push_async_callback(http.close)

    async def _open_store(self) -> MetadataStore:
        # Imported where they are needed: each has its time to load.
        settings = self.settings
        if settings.storage_engine != "memory":
            _make_folder(settings.data_dir)
        if settings.metadata.metadata_store == "etcd":
            from qanat.app.node.etcd_opening import open_etcd

            return await open_etcd(settings.metadata)
        if settings.storage_engine == "memory":
            from qanat.adapters.memory_store import MemoryStore

            return MemoryStore()
        from qanat.adapters.sqlite_store import SqliteStore

        path = f"{settings.data_dir}/metadata.db"
        _require_file(path, settings)
        return await SqliteStore.open(path)

    def _advertised(self) -> values.Listener:
        broker = self.settings.broker
        return values.Listener(
            name=self.settings.security.listener_security_protocol,
            security_protocol=self.settings.security.listener_security_protocol,
            host=broker.advertised_host_name or reachable_host(broker.host_name),
            port=broker.advertised_port or self.listener.port,
        )


def _engine(settings: NodeSettings) -> StorageEngine:
    """The storage engine; ours are taken as they are, without asking what else is installed, which takes its time."""
    if settings.storage_engine in ("file", "mmap"):
        return FileEngine(settings.directory)
    from qanat.app.node.plugins import storage_engine

    return storage_engine(settings.storage_engine, settings.directory)


def assignors(names: list[str]) -> dict[str, Assignor] | None:
    """Those that groups may ask for; None where ours are enough, which are known without asking what is installed."""
    if set(names) <= set(NAMES):
        return None
    from qanat.app.node.plugins import partition_assignors

    return partition_assignors(names)


def _gate(settings: SecuritySettings) -> ListenerSecurity | None:
    """Who is let in and who decides; None where everybody may do everything, which needs no import."""
    is_open = settings.listener_security_protocol == "PLAINTEXT"
    if is_open and not settings.authorizer_class_name:
        return None
    from qanat.app.node.plugins import authenticators, authorizer
    from qanat.servers.listener_security import ListenerSecurity

    return ListenerSecurity(
        None if is_open else authenticators(settings),
        authorizer(settings) if settings.authorizer_class_name else None,
        settings.super_principals,
    )


def reachable_host(bound: str) -> str:
    """What clients can connect to when we listen there: a name of this host where we listen everywhere."""
    return socket.gethostname() if bound in _EVERYWHERE else bound


async def _cluster_id(store: MetadataStore, keeping: NodeSettings | None) -> str:
    """The cluster's id; the first broker draws one, before any data is marked with it.

    `keeping` are the settings of a node that keeps data.
    """
    while True:
        entry = await store.get(keys.CLUSTER)
        if entry is not None:
            return values.decode(values.ClusterInfo, entry.value).cluster_id
        if keeping is not None:
            _refuse_orphans(keeping)
        info = values.ClusterInfo(cluster_id=uuid.uuid4().hex[:22])
        await store.commit([Absent(keys.CLUSTER)], [Put(keys.CLUSTER, values.encode(info)), first_level()])


def _make_folder(data_dir: str) -> None:
    try:
        os.makedirs(data_dir, exist_ok=True)
    except OSError as fault:
        raise ReadOnlyError(
            f"cannot make the data directory {data_dir}: {fault.strerror}; choose another --data-dir"
        ) from None


def _require_file(store: str, settings: NodeSettings) -> None:
    """Refuse to make a store where one was lost: before there is an empty file that looks like one."""
    if not os.path.exists(store):
        _refuse_orphans(settings)


def _refuse_orphans(settings: NodeSettings) -> None:
    """Refuse to begin a new cluster beside the data of an old one: its topics would be unknown, and in the way."""
    data_dir, metadata = settings.data_dir, settings.metadata
    for name in sorted(os.listdir(data_dir)) if os.path.isdir(data_dir) else ():
        folder = f"{data_dir}/{name}"
        if name.startswith("broker-") and os.path.exists(f"{folder}/meta.properties"):
            raise StorageError(
                f"{folder} holds data and {_lost_store(data_dir, metadata)} "
                f"and start again. To begin anew without that data: mv {folder} {data_dir}/old-{name}, then start; its "
                f"records stay readable with qanat log dump {data_dir}/old-{name}/TOPIC-PARTITION"
            )


def _lost_store(data_dir: str, metadata: MetadataSettings) -> str:
    if metadata.metadata_store == "etcd":
        return (
            f"etcd at {metadata.metadata_etcd_endpoints} knows no cluster under the prefix "
            f"{metadata.metadata_etcd_prefix!r}. Check metadata.etcd.endpoints and metadata.etcd.prefix, or restore "
            "etcd from a snapshot,"
        )
    store = f"{data_dir}/metadata.db"
    return (
        f"{store} is missing or empty: the list of topics, their settings and the cluster's id are lost with it. "
        f"Put {store} back from a backup (with its -wal file, if there is one)"
    )

"""One node, put together: store, logs, broker and listeners, started in order and stopped in reverse.

    BASE/metadata.db        the embedded metadata store, shared by all brokers of this host
    BASE/broker-<id>/       this broker's logs

With the `memory` engine nothing is written anywhere. A node that has a name instead of a
number gets one from the store (`node_names`).
"""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from importlib import import_module
from typing import TYPE_CHECKING

from qanat.adapters.storage_engines import FileEngine
from qanat.app.node.compose import Logs, open_log_directory
from qanat.app.node.listeners import NodeListeners
from qanat.app.node.metadata_store import open_store, refuse_orphans
from qanat.app.node.node_names import number_of
from qanat.app.node.push import LazyPush
from qanat.app.settings.listener_plan import PlannedListener, plan_listeners
from qanat.app.settings.node_settings import BUILT_IN_NETWORK, NodeSettings
from qanat.broker.broker import Broker
from qanat.cluster import keys, values
from qanat.cluster.format_levels import first_level
from qanat.cluster.store import Absent, MetadataStore, Put
from qanat.connection.network import TCP, Network
from qanat.groups.assignors.assignor import Assignor
from qanat.groups.assignors.built_in import NAMES
from qanat.log.directories.directory import LogDirectory
from qanat.log.directories.storage_engine import StorageEngine
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.model.errors import AddressInUseError, StorageError
from qanat.servers.kafka.connection import KafkaConnection
from qanat.servers.kafka.listener import KafkaListener
from qanat.telemetry.events import log_event

if TYPE_CHECKING:
    from qanat.edge.feeds import Feed, FeedSettings
    from qanat.servers.http.listener import HttpListener
    from qanat.servers.metrics.listener import MetricsListener

_EVERYWHERE = ("", "0.0.0.0", "::")
OnFault = Callable[[KafkaConnection, BaseException], None]


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
        """The caller closes a store or engine that it passes: both outlive the node.

        `logs` runs a data directory; `seed` fixes the broker's random choices.
        """
        self._logs = logs
        self._seed = seed
        self.settings = settings
        self._on_fault = on_fault
        self._store = store
        self._engine = engine
        self._opened = AsyncExitStack()
        self.node_id = -1
        self.cluster_id = ""
        self.directory: LogDirectory
        self.broker: Broker
        self.listener: KafkaListener
        self.push: LazyPush
        self.inter_broker: KafkaListener | None = None
        self.listeners: NodeListeners
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
        """The address that the node listens on."""
        return f"{self.listeners.plan.clients[0].host}:{self.listener.port}"

    @property
    def advertised_address(self) -> str:
        """The address that the node tells clients to connect to."""
        listener = self._advertised(self.listeners.plan.clients[0], self.listener)
        return f"{listener.host}:{listener.port}"

    async def _open(self, opened: AsyncExitStack) -> None:
        settings = self.settings
        listeners = plan_listeners(settings)
        store = self._store
        if store is None:
            store = await open_store(settings)
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
        network = _network(settings.network_type)
        self.broker.peers.network = network
        self.broker.current_settings.security = settings.security
        self.listeners = NodeListeners(listeners, settings.security, self.broker)
        opened.push_async_callback(self.listeners.providers.close)
        if self.listeners.identity is not None:
            self.broker.peers.security = self.listeners.identity.security
        endpoints = [self.listeners.endpoint(one) for one in self.listeners.plan.clients]
        self.listener = self.broker.listener_load = KafkaListener(self.broker, self._on_fault, endpoints, network)
        self.listener.push = self.push = LazyPush(self.broker, self.listener.dispatcher, network)
        await self.listener.bind()
        inter_broker = await self._open_inter_broker(opened)
        opened.push_async_callback(self.broker.close)
        advertised = [self._advertised(one, self.listener) for one in self.listeners.plan.clients]
        await self.broker.start(self.cluster_id, advertised, inter_broker)
        await self.listeners.prepare()
        opened.push_async_callback(self.listener.close)
        await self.listener.serve()
        if settings.broker.push_port is not None:
            await self.push.serve_own(endpoints[0], settings.broker.push_port)
        opened.push_async_callback(self.broker.controlled_shutdown.hand_over)
        if self.listeners.plan.metrics is not None:
            await self._open_metrics(opened, self.listeners.plan.metrics)
        if self.listeners.plan.http is not None:
            await self._open_http(opened, self.listeners.plan.http)
        if settings.edge.registry_url:
            await self._join_tree(opened)
        self.listeners.files.start()
        opened.push_async_callback(self.listeners.files.close)

    async def _open_inter_broker(self, opened: AsyncExitStack) -> values.Listener | None:
        """Open the listener for other brokers before this broker registers: it answers as soon as they see it."""
        planned = self.listeners.plan.inter_broker
        if planned is None:
            return None
        if planned.port in self.listener.ports.values():
            # The kernel lets both bind as long as neither listens, and would report nothing.
            raise AddressInUseError(
                f"inter.broker.port {planned.port} is the port of clients: choose another inter.broker.port"
            )
        endpoints = [self.listeners.endpoint(planned)]
        self.inter_broker = listener = KafkaListener(
            self.broker, self._on_fault, endpoints, self.broker.peers.network or TCP
        )
        await listener.bind()
        opened.push_async_callback(listener.close)
        await listener.serve()
        return self._advertised(planned, listener)

    async def _open_metrics(self, opened: AsyncExitStack, planned: PlannedListener) -> None:
        # Imported late: most nodes of tests and demonstrations serve no metrics.
        from qanat.servers.metrics.listener import MetricsListener

        tls = self.listeners.tls(planned)
        self.metrics = MetricsListener(self.broker, self.listener, planned.host, planned.port, tls)
        self.metrics.metrics.certificates = self.listeners.certificates
        await self.metrics.start()
        opened.push_async_callback(self.metrics.close)

    async def _open_http(self, opened: AsyncExitStack, planned: PlannedListener) -> None:
        # Imported in a worker: the event loop answers Kafka clients meanwhile.
        await asyncio.to_thread(import_module, "qanat.servers.http.listener")
        from qanat.servers.http.listener import HttpListener
        from qanat.servers.metrics.text import MetricsText

        metrics = MetricsText(self.broker, self.listener)
        metrics.certificates = self.listeners.certificates
        tls = self.listeners.tls(planned)
        security = self.listeners.security(planned, tls)
        await self.listeners.prepare()
        http = HttpListener(self.broker, self.listener.dispatcher, self.settings.http, metrics, security, tls)
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

    async def _join_tree(self, opened: AsyncExitStack) -> None:
        """Register with the registry of a tree, and pull from the parent that it names."""
        # Imported late: most brokers stand alone.
        from qanat.broker.edge.edge_node import EdgeNode
        from qanat.connection.http_fetch import check_url

        check_url("registry.url", self.settings.edge.registry_url)
        url = None if self.http is None else self.http.address
        node = EdgeNode(self.broker, str(self.settings.node_id), self.settings.edge, url, _feed)
        self.broker.edge_node = node
        await node.start()
        opened.push_async_callback(node.close)

    def _advertised(self, planned: PlannedListener, listener: KafkaListener) -> values.Listener:
        return values.Listener(
            name=planned.name,
            security_protocol=planned.protocol,
            host=planned.advertised_host or reachable_host(planned.host),
            port=planned.advertised_port or listener.ports[planned.name],
        )


def _engine(settings: NodeSettings) -> StorageEngine:
    """The storage engine; built-in ones are made without searching installed packages, which takes time."""
    if settings.storage_engine in ("file", "mmap"):
        return FileEngine(settings.directory)
    from qanat.app.node.plugins import storage_engine

    return storage_engine(settings.storage_engine, settings.directory)


def _network(name: str) -> Network:
    """How listeners are opened and other brokers are reached; installed packages are searched for anything but TCP."""
    if name == BUILT_IN_NETWORK:
        return TCP
    from qanat.app.node.plugins import network

    return network(name)


def _feed(scheme: str, settings: FeedSettings) -> Feed:
    from qanat.app.node.plugins import feed

    return feed(scheme, settings)


def assignors(names: list[str]) -> dict[str, Assignor] | None:
    """Assignors by name; None where all names are built-in ones, which need no search of installed packages."""
    if set(names) <= set(NAMES):
        return None
    from qanat.app.node.plugins import partition_assignors

    return partition_assignors(names)


def reachable_host(bound: str) -> str:
    """The host that clients connect to: the name of this host where the node listens on all addresses."""
    return socket.gethostname() if bound in _EVERYWHERE else bound


async def _cluster_id(store: MetadataStore, keeping: NodeSettings | None) -> str:
    """The cluster's id; the first broker draws one, before it marks any data with it.

    `keeping` are the settings of a node that stores data on disk.
    """
    while True:
        entry = await store.get(keys.CLUSTER)
        if entry is not None:
            return values.decode(values.ClusterInfo, entry.value).cluster_id
        if keeping is not None:
            try:
                refuse_orphans(keeping)
            except StorageError:
                if await store.get(keys.CLUSTER) is None:
                    raise
                continue  # Another broker has made the cluster since we asked, and marked its data.
        info = values.ClusterInfo(cluster_id=uuid.uuid4().hex[:22])
        await store.commit([Absent(keys.CLUSTER)], [Put(keys.CLUSTER, values.encode(info)), first_level()])

"""A node at work: opened, announced, and closed when a signal stops the process.

Rule 1: the first SIGTERM or SIGINT starts a clean shutdown, and the exit code is 0. The second does not wait:
        acknowledged records are on disk, and the next start recovers them.
Rule 2: before the port answers, nothing is imported that the answer does not need.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from qanat.app.node.banner import banner, durability, recovered
from qanat.app.node.event_log import LogFormat, configure
from qanat.app.node.event_loop import listen_to_signals, loop_factory
from qanat.app.node.node import Node
from qanat.app.node.service_manager import ServiceManager
from qanat.app.settings.handler_settings import HandlerSettings
from qanat.app.settings.loading import Loaded, assignment, flag, load
from qanat.app.settings.source_value import SourceValue
from qanat.broker.runtime.operator_events import damage
from qanat.cluster.host_defaults import hosts_of
from qanat.model.errors import QanatError
from qanat.servers.kafka.connection import KafkaConnection
from qanat.telemetry.events import LogLevel, failure, log_event


@dataclass(slots=True)
class StartFlags:
    """The flags of `qanat start`."""

    config: Path | None = None
    port: int | None = None
    host: str | None = None
    data_dir: str | None = None
    node_id: str | None = None
    assignments: Iterable[str] = ()
    log_format: LogFormat = "text"
    log_level: LogLevel = "info"

    def values(self) -> list[SourceValue]:
        """The flags that the command line has, as settings."""
        flags = (
            ("port", self.port, "--port"),
            ("host.name", self.host, "--host"),
            ("data.dir", self.data_dir, "--data-dir"),
            ("node.id", self.node_id, "--node-id"),
        )
        used = [flag(name, value, spelling) for name, value, spelling in flags if value is not None]
        return [*used, *map(assignment, self.assignments)]


def serve(flags: StartFlags, environment: Mapping[str, str], presets: Iterable[SourceValue] = ()) -> int:
    """Run one node until a signal stops it; returns the exit code."""
    configure(flags.log_format, flags.log_level)
    loaded = load([*presets, *flags.values()], flags.config, environment)
    for notice in loaded.notices:
        log_event(notice)
    if loaded.settings.environment != "dev":
        _require_fit(loaded, hosts=1)
    manager = ServiceManager(os.environ)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(loaded, manager, (flags.log_format, flags.log_level)))


async def _serve(loaded: Loaded, manager: ServiceManager, log: tuple[LogFormat, LogLevel]) -> int:
    stop = asyncio.Event()
    listen_to_signals(stop)
    began = time.perf_counter()
    async with (
        manager.watched(),
        Node(loaded.settings, on_fault=_on_fault) as node,
        _handlers(loaded.settings.handlers, node, log),
    ):
        hosts = len(hosts_of(node.broker.metadata.image.brokers))
        if loaded.settings.environment != "dev" and hosts > 1:
            _require_fit(loaded, hosts)
        _announce(node, round((time.perf_counter() - began) * 1000))
        manager.ready(f"serving on {node.address}")
        collect_rarely()
        await stop.wait()
        manager.stopping()
        log_event("stopping")
    log_event("stopped")
    return 0


@asynccontextmanager
async def _handlers(settings: HandlerSettings, node: Node, log: tuple[LogFormat, LogLevel]) -> AsyncIterator[None]:
    """Run the apps of `handlers.apps` meanwhile; they end before the node does."""
    if not settings.handlers_apps:
        yield
        return
    from qanat.app.handlers.handler_supervisor import HandlerSupervisor

    async with HandlerSupervisor(settings, node.advertised_address, os.environ, log) as supervisor:
        node.broker.handler_apps = supervisor.apps
        yield


def _require_fit(loaded: Loaded, hosts: int) -> None:
    """Hold the set-up to the rules of its environment, which are imported only where there are any."""
    from qanat.app.rules.setup_rules import Setup, require_fit
    from qanat.app.settings.listener_plan import plan_listeners

    def warn(text: str) -> None:
        log_event(text, level="warning")

    require_fit(Setup(loaded.settings, plan_listeners(loaded.settings), hosts), loaded.values, warn)


def collect_rarely() -> None:
    """Exclude the objects of start-up from garbage collection, and collect the others seldom.

    Reference counting frees nearly all objects. A full collection blocks the event loop for as long as there are many
    objects, and a single request of a hundred thousand rows would cause several.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    gc.enable()


def _announce(node: Node, took_ms: int) -> None:
    print(banner(node), flush=True)
    log_event(
        "started",
        node=node.node_id,
        cluster=node.cluster_id,
        address=node.address,
        http=node.http.address if node.http is not None else None,
        data=node.settings.data_dir,
        durability=durability(node),
        recovered=recovered(node),
        took_ms=took_ms,
    )
    for at, fault in node.directory.offline.items():
        log_event("partition is offline", level="error", partition=str(at), reason=str(fault))
    for log in node.directory.logs.values():
        damage(log, log.damage)


def _on_fault(connection: KafkaConnection, fault: BaseException) -> None:
    """Log a disconnected client: its own fault as one line, a bug of ours with a traceback."""
    if isinstance(fault, QanatError):
        log_event("client cut off", level="warning", peer=connection.peer, reason=str(fault))
    else:
        failure("bug while serving a client", fault, peer=connection.peer)

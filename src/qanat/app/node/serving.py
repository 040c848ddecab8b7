"""A node at work: opened, announced, and closed when the process is told to stop.

Rule 1: the first SIGTERM or SIGINT stops the node in good order, and the exit code is 0. The
        second does not wait: what is acknowledged is on disk, the next start recovers it.
Rule 2: nothing is imported before the port answers that the answer does not need.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from qanat.app.node.banner import banner, durability, recovered
from qanat.app.node.event_log import LogFormat, configure
from qanat.app.node.node import Node
from qanat.app.settings.given import Given
from qanat.app.settings.loading import Loaded, assignment, flag, load
from qanat.broker.runtime.operator_events import damage
from qanat.model.errors import QanatError
from qanat.servers.kafka.connection import KafkaConnection
from qanat.telemetry.events import LogLevel, failure, log_event

_HURRIED = 130


@dataclass(slots=True)
class StartFlags:
    """What a command line can say to `qanat start`."""

    config: Path | None = None
    port: int | None = None
    host: str | None = None
    data_dir: str | None = None
    node_id: str | None = None
    assignments: Iterable[str] = ()
    log_format: LogFormat = "text"
    log_level: LogLevel = "info"

    def given(self) -> list[Given]:
        """The flags that were used, as settings."""
        flags = (
            ("port", self.port, "--port"),
            ("host.name", self.host, "--host"),
            ("data.dir", self.data_dir, "--data-dir"),
            ("node.id", self.node_id, "--node-id"),
        )
        used = [flag(name, value, spelling) for name, value, spelling in flags if value is not None]
        return [*used, *map(assignment, self.assignments)]


def serve(flags: StartFlags, environment: Mapping[str, str], presets: Iterable[Given] = ()) -> int:
    """Run one node until it is told to stop; the exit code."""
    configure(flags.log_format, flags.log_level)
    loaded = load([*presets, *flags.given()], flags.config, environment)
    for notice in loaded.notices:
        log_event(notice)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(loaded))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _serve(loaded: Loaded) -> int:
    stop = asyncio.Event()
    _listen_to_signals(stop)
    began = time.perf_counter()
    async with Node(loaded.settings, on_fault=_on_fault) as node:
        _announce(node, round((time.perf_counter() - began) * 1000))
        collect_rarely()
        await stop.wait()
        log_event("stopping")
    log_event("stopped")
    return 0


def collect_rarely() -> None:
    """Leave what start-up has made alone for good, and look at everything else seldom.

    Nearly all goes by reference counting. A look at everything holds the loop for as long as there is much,
    and a single request of a hundred thousand rows would lead to several.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    gc.enable()


def _listen_to_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        if stop.is_set():
            log_event("a second signal: not waiting any longer", level="warning", signal=signal.Signals(number).name)
            os._exit(_HURRIED)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)


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
    """A client that was cut off: its own doing is a line, ours comes with a traceback."""
    if isinstance(fault, QanatError):
        log_event("client cut off", level="warning", peer=connection.peer, reason=str(fault))
    else:
        failure("bug while serving a client", fault, peer=connection.peer)

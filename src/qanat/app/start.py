"""`qanat start` and `qanat dev`: run one node until it is told to stop.

Rule 1: the first SIGTERM or SIGINT stops the node in good order, and the exit code is 0. The
        second does not wait: what is acknowledged is on disk, the next start recovers it.
Rule 2: nothing is imported before the port answers that the answer does not need.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qanat.app.banner import banner, durability, recovered
from qanat.app.events import LogFormat, LogLevel, configure, event, failure
from qanat.app.node import Node
from qanat.app.settings.given import Given
from qanat.app.settings.loading import Loaded, assignment, flag, load
from qanat.model.errors import QanatError
from qanat.servers.kafka.connection import KafkaConnection

_HURRIED = 130

Assignments = Annotated[list[str] | None, Parameter(name="-X", negative="", allow_leading_hyphen=True)]
LogFormatOption = Annotated[LogFormat, Parameter(name="--log-format")]


def start(
    *,
    config: Annotated[Path | None, Parameter(name=["--config", "-c"])] = None,
    port: int | None = None,
    host: str | None = None,
    data_dir: Path | None = None,
    node_id: str | None = None,
    settings: Assignments = None,
    log_format: LogFormatOption = "text",
    log_level: LogLevel = "info",
) -> int:
    """Run a broker on this machine until it is told to stop (Ctrl-C or SIGTERM).

    Settings come from defaults, then the file, then the environment (`QANAT_NUM_PARTITIONS=3`), then flags;
    the later wins. Names are Kafka's. A name that is not known is an error.

        qanat start
        qanat start --port 9093 --data-dir ./data -X num.partitions=3
        NODE_ID=local-001 BROKER_PORT=9092 DATA_DIR=./data qanat start

    Exit codes: 0 stopped in good order, 1 could not start (one sentence says why), 2 wrong usage.

    Parameters
    ----------
    config:
        Settings file: YAML, or Kafka's server.properties.
    port:
        Port of the Kafka listener; 0 takes a free one.
    host:
        Address to listen on; 0.0.0.0 for every one of this machine.
    data_dir:
        Where everything is kept.
    node_id:
        Number of this node, or a name.
    settings:
        Any other setting, as often as needed: -X name=value.
    log_format:
        Form of the log on stderr.
    log_level:
        The least important events that are logged.
    """
    flags = _flags(("port", port), ("host.name", host, "--host"), ("data.dir", data_dir), ("node.id", node_id))
    configure(log_format, log_level)
    return _run(load([*flags, *map(assignment, settings or ())], config, os.environ))


def dev(
    *,
    port: int = 0,
    settings: Assignments = None,
    log_format: LogFormatOption = "text",
    log_level: LogLevel = "warning",
) -> int:
    """Run a throw-away broker in memory: quick, private, gone when it ends.

    Nothing is read from files or the environment, nothing is written to disk. Groups form at once.

        qanat dev --port 9092

    Parameters
    ----------
    port:
        Port of the Kafka listener; 0 takes a free one, which is printed.
    settings:
        Any setting, as often as needed: -X name=value.
    log_format:
        Form of the log on stderr.
    log_level:
        The least important events that are logged.
    """
    flags = _flags(("port", port), ("storage.engine", "memory", "qanat dev"))
    hurried = flag("group.initial.rebalance.delay.ms", 0, "qanat dev")
    configure(log_format, log_level)
    return _run(load([*flags, hurried, *map(assignment, settings or ())], None, {}))


def _flags(*given: tuple[str, object] | tuple[str, object, str]) -> list[Given]:
    """Flags that were used, as settings; a flag is spelled like its setting unless it says otherwise."""
    return [
        flag(name, value, spelled[0] if spelled else "--" + name.replace(".", "-"))
        for name, value, *spelled in given
        if value is not None
    ]


def _run(loaded: Loaded) -> int:
    for notice in loaded.notices:
        event(notice)
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
        await stop.wait()
        event("stopping")
    event("stopped")
    return 0


def _listen_to_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        if stop.is_set():
            event("a second signal: not waiting any longer", level="warning", signal=signal.Signals(number).name)
            os._exit(_HURRIED)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)


def _announce(node: Node, took_ms: int) -> None:
    print(banner(node), flush=True)
    event(
        "started",
        node=node.node_id,
        cluster=node.cluster_id,
        address=node.address,
        data=node.settings.data_dir,
        durability=durability(node),
        recovered=recovered(node),
        took_ms=took_ms,
    )
    for at, fault in node.directory.offline.items():
        event("partition is offline", level="error", partition=str(at), reason=str(fault))


def _on_fault(connection: KafkaConnection, fault: BaseException) -> None:
    """A client that was cut off: its own doing is a line, ours comes with a traceback."""
    if isinstance(fault, QanatError):
        event("client cut off", level="warning", peer=connection.peer, reason=str(fault))
    else:
        failure("bug while serving a client", fault, peer=connection.peer)

"""The supervisor of a local cluster's processes: it starts, watches, restarts and stops them.

It restarts a broker that stopped cleanly (exit code 0, as in a rolling restart) at once, and one that was killed or
failed after a delay. It does not restart a broker that fails to start a few times in a row; it logs its last log line.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from dataclasses import dataclass, field
from pathlib import Path

from qanat.app.child_processes import end_with_parent
from qanat.app.cluster.cluster_plan import BrokerPlan, ClusterPlan, require_port
from qanat.app.cluster.pid_file import ClusterError, write_pid_file
from qanat.telemetry.events import log_event

_START_S = 60.0
_STOP_S = 30.0
_LOOK_S = 0.05
_AFTER_STOP_S = 0.2
_EARLY_S = 5.0
"""A process that ends this soon after its start has failed to start."""
_FAILED_STARTS_MAX = 3


@dataclass(slots=True)
class _Broker:
    plan: BrokerPlan
    process: asyncio.subprocess.Process | None = None
    started: float = 0.0
    failed_starts: int = 0
    watching: asyncio.Task[None] | None = field(default=None, repr=False)


class Supervisor:
    """The brokers of `cluster up`: `start` them, `stop` them; meanwhile it restarts those that end."""

    def __init__(self, plan: ClusterPlan, restart_after_s: float | None) -> None:
        self.plan = plan
        self._restart_after_s = restart_after_s
        self._brokers = [_Broker(one) for one in plan.brokers]
        self._is_stopping = False
        self.all_failed = asyncio.Event()
        """Set when no broker is left to watch."""

    def log_path(self, node_id: int) -> Path:
        return Path(self.plan.data_dir) / f"broker-{node_id}.log"

    async def start(self) -> None:
        """Start every broker; returns once all of them answer."""
        _require_free_ports(self.plan)
        for broker in self._brokers:
            await self._launch(broker)
        for broker in self._brokers:
            await self._answered(broker, broker.plan.port)
            if broker.plan.http_port is not None:
                await self._answered(broker, broker.plan.http_port)
        for broker in self._brokers:
            broker.watching = asyncio.create_task(self._watch(broker))
        self._write_pid_file()

    def pids(self) -> dict[int, int]:
        return {one.plan.node_id: one.process.pid for one in self._brokers if one.process is not None}

    def _write_pid_file(self) -> None:
        processes = {one.plan: one.process.pid for one in self._brokers if one.process is not None}
        plan = self.plan
        words = list(plan.arguments)
        config = words[words.index("--config") + 1] if "--config" in words else None
        write_pid_file(plan.data_dir, processes, plan.settings_of(plan.brokers[0]), config)

    async def stop(self) -> None:
        """Stop every broker, one after another, so that each hands over its leaderships."""
        self._is_stopping = True
        for broker in self._brokers:
            if broker.watching is not None:
                broker.watching.cancel()
        for broker in self._brokers:
            await _end(broker.process)

    async def _launch(self, broker: _Broker) -> None:
        with self.log_path(broker.plan.node_id).open("ab") as log:
            broker.process = await asyncio.create_subprocess_exec(
                *self.plan.command(broker.plan),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # An interrupt at the terminal reaches this process, which then stops them one by one.
                start_new_session=True,
                preexec_fn=end_with_parent(),
            )
        broker.started = asyncio.get_running_loop().time()

    async def _answered(self, broker: _Broker, port: int) -> None:
        deadline = asyncio.get_running_loop().time() + _START_S
        while asyncio.get_running_loop().time() < deadline:
            if broker.process is None or broker.process.returncode is not None:
                break
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(_LOOK_S)
            else:
                writer.close()
                return
        raise ClusterError(f"broker {broker.plan.node_id} did not start: {self._last_log_line(broker.plan.node_id)}")

    async def _watch(self, broker: _Broker) -> None:
        """Restart a broker whenever it ends."""
        while not self._is_stopping:
            assert broker.process is not None
            code = await broker.process.wait()
            lived_s = asyncio.get_running_loop().time() - broker.started
            broker.failed_starts = broker.failed_starts + 1 if code and lived_s < _EARLY_S else 0
            node_id = broker.plan.node_id
            if broker.failed_starts >= _FAILED_STARTS_MAX:
                log_event("broker not restarted", level="error", broker=node_id, last_line=self._last_log_line(node_id))
                self._mark_failed(broker)
                return
            if code and self._restart_after_s is None:
                log_event("broker ended", level="error", broker=node_id, code=code)
                self._mark_failed(broker)
                return
            log_event("broker ended: restarting it", level="warning" if code else "info", broker=node_id, code=code)
            await asyncio.sleep(_AFTER_STOP_S if not code else self._restart_after_s or 0)
            await self._launch(broker)
            self._write_pid_file()

    def _mark_failed(self, broker: _Broker) -> None:
        broker.process = None
        self._write_pid_file()
        if all(one.process is None for one in self._brokers):
            self.all_failed.set()

    def _last_log_line(self, node_id: int) -> str:
        path = self.log_path(node_id)
        lines = (
            [line for line in path.read_text(errors="replace").splitlines() if line.strip()] if path.exists() else []
        )
        return f"{lines[-1][:300] if lines else 'its log is empty'} (see {path})"


def _require_free_ports(plan: ClusterPlan) -> None:
    for broker in plan.brokers:
        for port in plan.ports(broker):
            require_free_port(f"broker {broker.node_id}", port, "--port or --http-port")


def require_free_port(who: str, port: int, flags: str) -> None:
    """Refuse a port in use: the process that answers there would be mistaken for the broker."""
    require_port(who, port, flags)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", port))
        except OSError as fault:
            raise ClusterError(
                f"{who} cannot have port {port}: {fault.strerror}; stop what is using it, or choose another {flags}"
            ) from None


async def _end(process: asyncio.subprocess.Process | None) -> None:
    if process is None or process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(_STOP_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()

"""The supervisor of `qanat run`: it starts worker processes, restarts those that end, and stops all of them.

The first signal passes SIGTERM on: workers finish what runs, commit and leave. A second one passes on another, and
they stop at once. One that outlives its app's grace by far is killed. Workers end with this process, even if it is
killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from qanat.app.apps.source_watch import changed, stamps
from qanat.app.apps.worker import EXIT_UNLOADABLE
from qanat.app.child_processes import end_with_parent
from qanat.app.handlers.restarts import Restarts
from qanat.telemetry.events import log_event

_LOOK_S = 0.5
"""How often source files are looked at."""
_KILL_S = 5.0
"""How long workers may take after a second signal."""
_GRACE_S = 30.0
"""The grace of an app that has not said another."""
_MARGIN_S = 20.0
"""How much longer than its app's grace a worker may take to close its clients and end."""


@dataclass(slots=True)
class _Worker:
    number: int
    process: asyncio.subprocess.Process | None = None
    grace_pipe: int = -1
    grace_s: float = _GRACE_S
    restarts: Restarts = field(default_factory=Restarts)


class AppSupervisor:
    """The workers of one `qanat run`."""

    def __init__(self, arguments: list[str], workers: int, reload_directory: Path | None) -> None:
        self._arguments = arguments
        self._workers = [_Worker(number + 1) for number in range(workers)]
        self._reload_directory = reload_directory
        self._signals = 0
        self._stopping = asyncio.Event()
        self._exit_code = 0

    async def run(self) -> int:
        """Run until a signal, or until the app cannot be loaded; returns the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        watching = asyncio.create_task(self._watch()) if self._reload_directory is not None else None
        try:
            await asyncio.gather(*(self._keep(worker) for worker in self._workers))
        finally:
            if watching is not None:
                watching.cancel()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
        return self._exit_code

    def _on_signal(self) -> None:
        self._signals += 1
        self._stopping.set()
        for worker in self._workers:
            _stop(worker, self._signals > 1)

    async def _keep(self, worker: _Worker) -> None:
        """Run one worker again and again, until all stop."""
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            worker.restarts.started(loop.time())
            await self._start(worker)
            assert worker.process is not None
            if self._stopping.is_set():
                _stop(worker, self._signals > 1)
            code = await worker.process.wait()
            worker.process = None
            os.close(worker.grace_pipe)
            if self._stopping.is_set():
                # One that was still loading its app is ended by the signal itself, and had done nothing.
                self._exit_code = max(self._exit_code, 0 if code in (0, -signal.SIGTERM) else 1)
                return
            if code == EXIT_UNLOADABLE and self._reload_directory is None:
                # Another start would fail as well; with --reload, the next change may repair it.
                self._exit_code = 1
                self._on_signal()
                return
            await self._pause(worker, code)

    async def _start(self, worker: _Worker) -> None:
        worker.grace_pipe, its_end = os.pipe()
        os.set_blocking(worker.grace_pipe, False)
        worker.grace_s = _GRACE_S
        line = [sys.executable, "-m", "qanat.app.apps.worker", *self._arguments, str(its_end)]
        try:
            worker.process = await asyncio.create_subprocess_exec(
                *line, preexec_fn=end_with_parent(), pass_fds=[its_end]
            )
        finally:
            os.close(its_end)
        log_event("worker started", worker=worker.number, pid=worker.process.pid)

    async def _pause(self, worker: _Worker, code: int) -> None:
        """Wait before the next start; a stop does not wait."""
        if code == -signal.SIGTERM or code == 0:
            pause_s = 0.0
        else:
            pause_s = worker.restarts.ended(asyncio.get_running_loop().time())
        log_event("worker ended", level="warning", worker=worker.number, exit_code=code, restarts_after_s=pause_s)
        try:
            await asyncio.wait_for(self._stopping.wait(), pause_s)
        except TimeoutError:
            return

    async def _watch(self) -> None:
        """Restart workers when a source file changes."""
        assert self._reload_directory is not None
        before = await asyncio.to_thread(stamps, self._reload_directory)
        while True:
            await asyncio.sleep(_LOOK_S)
            after = await asyncio.to_thread(stamps, self._reload_directory)
            path = changed(before, after)
            before = after
            if path is not None:
                log_event("source changed, workers restart", path=path)
                for worker in self._workers:
                    worker.restarts.failures = 0
                    _stop(worker, at_once=False)


def _stop(worker: _Worker, at_once: bool) -> None:
    """Ask a worker to stop, and kill it where it takes too long."""
    process = worker.process
    if process is None:
        return
    _send(process, signal.SIGTERM)
    with suppress(BlockingIOError, ValueError):
        worker.grace_s = float(os.read(worker.grace_pipe, 100) or worker.grace_s)
    limit_s = _KILL_S if at_once else worker.grace_s + _MARGIN_S
    asyncio.get_running_loop().call_later(limit_s, _kill, worker.number, process, limit_s)


def _kill(number: int, process: asyncio.subprocess.Process, limit_s: float) -> None:
    if process.returncode is None:
        log_event("worker killed, it did not stop", level="error", worker=number, after_s=limit_s)
        process.kill()


def _send(process: asyncio.subprocess.Process, number: int) -> None:
    if process.returncode is None:
        process.send_signal(number)

"""The supervisor of `qanat run`: it starts worker processes, restarts those that end, and stops all of them.

The first signal passes SIGTERM on: workers finish what runs, commit and leave. A second one passes on another, and
they stop at once. Workers end with this process, even if it is killed.
"""

from __future__ import annotations

import asyncio
import signal
import sys
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


@dataclass(slots=True)
class _Worker:
    number: int
    process: asyncio.subprocess.Process | None = None
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
            _send(worker.process, signal.SIGTERM)
        if self._signals == 2:
            asyncio.get_running_loop().call_later(_KILL_S, self._kill)

    def _kill(self) -> None:
        for worker in self._workers:
            _send(worker.process, signal.SIGKILL)

    async def _keep(self, worker: _Worker) -> None:
        """Run one worker again and again, until all stop."""
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            worker.restarts.started(loop.time())
            worker.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "qanat.app.apps.worker", *self._arguments, preexec_fn=end_with_parent()
            )
            log_event("worker started", worker=worker.number, pid=worker.process.pid)
            if self._stopping.is_set():
                _send(worker.process, signal.SIGTERM)
            code = await worker.process.wait()
            worker.process = None
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
                    _send(worker.process, signal.SIGTERM)


def _send(process: asyncio.subprocess.Process | None, number: int) -> None:
    if process is not None and process.returncode is None:
        process.send_signal(number)

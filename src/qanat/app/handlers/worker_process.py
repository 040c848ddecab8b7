"""One worker process of an app: started, watched, ended, and started again until the broker stops.

The worker reports once a second on its standard output, which the handlers' own prints do not reach. Silence for
`handlers.stall.timeout.ms`, a line that is no report, or a closed pipe is its end: the whole process group is killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from qanat.app.handlers.restarts import Restarts
from qanat.telemetry.events import log_event
from qanat.telemetry.handler_apps import REPORT_BYTES_MAX, HandlerApp, HandlerProcess, WorkerReport

_MODULE = "qanat.app.apps.handler_worker"
_LOOK_S = 1.0
"""How often to look whether a silent process is still there."""
_SETTLE_S = 2.0
"""How long a process may take to end after it closed its pipe."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How worker processes are started and judged."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: str | None
    stall_s: float


class WorkerProcess:
    """One of an app's workers."""

    def __init__(self, app: HandlerApp, worker: HandlerProcess, launch: Launch) -> None:
        self._app = app
        self._worker = worker
        self._launch = launch
        self._restarts = Restarts()
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()
        self._decoder = msgspec.json.Decoder(WorkerReport)

    def stop(self) -> None:
        """Let it finish, commit and leave; start no other."""
        self._stopping.set()
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._signal(signal.SIGKILL)

    async def keep(self) -> None:
        """Run the worker again and again, until `stop`."""
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            self._restarts.started(loop.time())
            reason = await self._run()
            if self._stopping.is_set():
                return
            pause_s = self._restarts.ended(loop.time())
            self._worker.problem = reason
            self._event("handler worker ended", reason=reason, restarts_after_s=pause_s)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause_s)
                return
            self._app.restarts += 1

    async def _run(self) -> str:
        """One process from its start to its end; returns why it ended."""
        try:
            process = await asyncio.create_subprocess_exec(
                *(
                    sys.executable,
                    "-P",
                    "-u",
                    "-m",
                    _MODULE,
                    *self._launch.arguments,
                ),  # What handlers print shows at once.
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                cwd=self._launch.directory,
                env=dict(self._launch.environment),
                # An interrupt at the terminal reaches the broker, which then stops its workers.
                start_new_session=True,
                limit=REPORT_BYTES_MAX,
            )
        except OSError as fault:
            return f"it cannot be started: {fault}"
        self._process = process
        self._worker.pid = process.pid
        log_event("handler worker started", app=self._app.name, worker=self._worker.number, pid=process.pid)
        if self._stopping.is_set():
            self._signal(signal.SIGTERM)
        try:
            silence = await self._listen(process)
            ending = self._worker.report.problem if self._worker.report.is_ending else ""
            code = process.returncode if silence else await self._settled(process)
            return silence or ending or _ending(code)
        finally:
            # Processes that it started end with it.
            self._signal(signal.SIGKILL)
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _SETTLE_S)
            self._process = None
            self._app.note_end(self._worker)

    async def _listen(self, process: asyncio.subprocess.Process) -> str:
        """Read reports until the pipe closes; returns why the process must be killed, or nothing."""
        assert process.stdout is not None
        loop = asyncio.get_running_loop()
        heard_s = loop.time()
        while True:
            try:
                async with asyncio.timeout(min(self._launch.stall_s, _LOOK_S)):
                    line = await process.stdout.readline()
            except TimeoutError:
                if process.returncode is not None:
                    return ""  # A process that it started holds the pipe open.
                if loop.time() - heard_s < self._launch.stall_s:
                    continue
                self._app.killed += 1
                return (
                    f"it reported nothing for {self._launch.stall_s:g} s and was killed: a handler or import blocks it"
                )
            except ValueError:
                return "it wrote a line without end instead of a report, and was killed"
            if not line:
                return ""
            heard_s = loop.time()
            try:
                self._note(self._decoder.decode(line))
            except (msgspec.ValidationError, msgspec.DecodeError):
                return f"it wrote {line[:60]!r} instead of a report, and was killed"

    def _note(self, report: WorkerReport) -> None:
        """Keep a report; a problem that begins or ends is worth one line."""
        before = self._worker.report.problem
        self._worker.report = report
        if report.is_started and not report.problem:
            self._worker.problem = ""
        if report.is_ending:
            return
        if report.problem and not before:
            self._event("handlers make no progress", reason=report.problem)
        elif before and not report.problem:
            log_event("handlers go on", app=self._app.name, worker=self._worker.number)

    async def _settled(self, process: asyncio.subprocess.Process) -> int | None:
        with suppress(TimeoutError):
            return await asyncio.wait_for(process.wait(), _SETTLE_S)
        return None

    def _event(self, name: str, **fields: object) -> None:
        log_event(name, level="warning", app=self._app.name, worker=self._worker.number, **fields)

    def _signal(self, number: int) -> None:
        process = self._process
        if process is None:
            return
        if number != signal.SIGKILL:
            if process.returncode is None:
                process.send_signal(number)
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


def _ending(code: int | None) -> str:
    if code is None:
        return "it closed its reports and went on, and was killed"
    if code < 0:
        with suppress(ValueError):
            return f"it was ended by {signal.Signals(-code).name}"
    return f"it exited with code {code}"

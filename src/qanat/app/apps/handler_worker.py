"""One worker process that a broker started: an app that reports to the broker, and ends with it.

    python -m qanat.app.apps.handler_worker module:app LOG_FORMAT LOG_LEVEL MEMORY_BYTES GRACE_MS BROKER_PID

Reports go to standard output as the broker passed it, one JSON object a line; handlers print to standard error. The
process has less priority than the broker, is the first that the kernel kills when memory runs out, writes no core
files, is killed by the kernel when the broker dies, and where the kernel can refuse it, cannot kill the broker.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from qanat.app.apps.app_lookup import load_app
from qanat.app.apps.process_end import end_despite_threads
from qanat.app.handlers.signal_scope import keep_signals_inside
from qanat.app.node.event_log import configure
from qanat.client.app.app import App
from qanat.client.app.daemon_threads import run_without_waiting
from qanat.client.app.worker import AppWorker
from qanat.model.errors import QanatError
from qanat.telemetry.handler_apps import REPORT_S, HandlerCounts, WorkerReport

_PR_SET_PDEATHSIG = 1
_NICE = 5
_OOM_SCORE = 800
_PROBLEM_CHARACTERS_MAX = 2000


def main(arguments: Sequence[str]) -> int:
    name, log_format, log_level, memory_bytes, grace_ms, broker_pid = arguments
    reports = Reports()
    try:
        _bound(int(memory_bytes), int(broker_pid))
        configure(log_format, log_level)  # type: ignore[arg-type]  # Checked by the broker's command line.
        app = load_app(name)
        # The broker kills what outlasts its own timeout: better to stop and commit within it.
        app.grace_s = min(app.grace_s, int(grace_ms) / 1000 * 0.8)
        # It starts with the broker, before anybody could create topics.
        app.settings.setdefault("allow_missing_topics", True)
        run_without_waiting(_serve(app, reports))
    except QanatError as fault:
        return end_despite_threads(reports.end(str(fault)))
    except BaseException as fault:  # noqa: BLE001 - the end of the process, whatever ended it
        return end_despite_threads(reports.end(f"{type(fault).__name__}: {fault}"))
    return end_despite_threads(0)


async def _serve(app: App, reports: Reports) -> None:
    worker = AppWorker(app)
    reporting = asyncio.create_task(reports.run(worker))
    try:
        await app.serve_worker(worker, has_signals=True)
    finally:
        reporting.cancel()
        reports.send(_report(worker))


class Reports:
    """The pipe to the broker, taken away from standard output before any code of users runs."""

    def __init__(self) -> None:
        self._pipe = os.dup(1)
        os.dup2(2, 1)
        os.set_inheritable(self._pipe, False)
        os.set_blocking(self._pipe, False)
        self._last = WorkerReport()
        self._unsent = b""

    async def run(self, worker: AppWorker) -> None:
        """Report for ever."""
        while True:
            self.send(_report(worker))
            await asyncio.sleep(REPORT_S)

    def send(self, report: WorkerReport) -> None:
        """Write one line; where the broker reads too slowly, the rest of it waits and newer ones are left out."""
        self._last = report
        line = self._unsent or msgspec.json.encode(report) + b"\n"
        with suppress(OSError):
            self._unsent = line[os.write(self._pipe, line) :]

    def end(self, problem: str) -> int:
        """The last line: why the process ends."""
        text = " ".join(problem.split())[:_PROBLEM_CHARACTERS_MAX]
        self.send(msgspec.structs.replace(self._last, problem=text, is_ending=True))
        return 1


def _report(worker: AppWorker) -> WorkerReport:
    health = worker.health()
    counts = tuple(
        HandlerCounts(one.handler, one.group, one.handled, one.failed, one.retried, one.dead_lettered, one.skipped)
        for one in worker.counters()
    )
    problem = "" if health or not worker.is_started else health.reason[:_PROBLEM_CHARACTERS_MAX]
    return WorkerReport(worker.is_started, problem, counts)


def _bound(memory_bytes: int, broker_pid: int) -> None:
    """Keep this process from harming the broker, as far as a process can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write(str(_OOM_SCORE))
    if os.getppid() != broker_pid:
        os._exit(1)  # The broker ended before it could be asked to take this process along.
    keep_signals_inside()
    with suppress(OSError):
        os.nice(_NICE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes:
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        limit = memory_bytes if most == resource.RLIM_INFINITY else min(memory_bytes, most)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

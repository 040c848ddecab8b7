"""The workers of a run: started together, watched and stopped; their outcomes are merged here."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import msgspec

from qanat.app.bench.clients.broker_usage import Usage, usage
from qanat.app.bench.clients.latencies import Latencies
from qanat.app.bench.clients.worker_messages import (
    GO,
    STOP,
    ConsumeTask,
    Failed,
    Outcome,
    ProduceTask,
    Progress,
    Ready,
    Task,
    WorkerMessage,
    WorkerTasks,
)
from qanat.model.errors import QanatError

_STEP_S = 0.25
"""Interval of progress checks."""
_PREPARE_S = 120.0
_END_S = 30.0
"""How long a stopped worker may take beyond its own timeout."""
_GOODBYE_S = 5.0
_SLOWEST_PER_S = 1000.0
"""Records a second that a producer without a limit sends at least while it warms up."""


class WorkerFailedError(QanatError):
    """A client failed; the message has the reason."""


@dataclass(slots=True)
class Findings:
    """The outcomes of all clients of one kind in a run."""

    outcomes: list[Outcome] = field(default_factory=list)
    timeline: list[tuple[float, int]] = field(default_factory=list)
    """Seconds since the start, and records until then."""
    was_interrupted: bool = False

    @property
    def seconds(self) -> float:
        if not self.outcomes:
            return 0.0
        return max(one.ended_s for one in self.outcomes) - min(one.began_s for one in self.outcomes)

    @property
    def records(self) -> int:
        return sum(one.records for one in self.outcomes)

    @property
    def size_bytes(self) -> int:
        return sum(one.size_bytes for one in self.outcomes)

    @property
    def errors(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for one in self.outcomes:
            found.update(one.errors)
        return found

    @property
    def commits(self) -> int:
        return sum(one.commits for one in self.outcomes)

    @property
    def first_record_s(self) -> float | None:
        return min((one.first_record_s for one in self.outcomes if one.first_record_s is not None), default=None)

    @property
    def complaint(self) -> str:
        return next((one.complaint for one in self.outcomes if one.complaint), "")

    def latencies(self) -> Latencies:
        joined = Latencies()
        for one in self.outcomes:
            joined.add(one.latencies, one.largest_us)
        return joined

    def commit_latencies(self) -> Latencies:
        joined = Latencies()
        for one in self.outcomes:
            joined.add(one.commit_latencies, one.commit_largest_us)
        return joined


class Worker:
    """One process of the pool."""

    def __init__(self, tasks: Sequence[Task], messages: queue.Queue[tuple[Worker, WorkerMessage | None]]) -> None:
        self.is_reading = isinstance(tasks[0], ConsumeTask)
        self.timeout_s = tasks[0].timeout_s
        self.warmup_s = max(_longest_warmup_s(task) for task in tasks)
        self.progress = Progress(0, 0, 0)
        self.outcomes: list[Outcome] = []
        self.is_ready = self.is_over = False
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._process = subprocess.Popen(
            [sys.executable, "-m", "qanat.app.bench.clients.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )
        self.send(msgspec.json.encode(WorkerTasks(list(tasks))).decode())
        self._listener = threading.Thread(target=self._listen, args=(messages,), name="worker-listener", daemon=True)
        self._listener.start()

    def send(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except OSError:
            # It has ended; its listener reports that.
            return

    def last_output_line(self) -> str:
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it printed nothing"

    def close(self) -> None:
        """End the process; one that has not finished by now is killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_GOODBYE_S if self.is_over else 0)
        finally:
            self._process.kill()
            self._process.wait()
            self._listener.join()
            self._process.stdout.close()
            self._complaints.close()

    def _listen(self, messages: queue.Queue[tuple[Worker, WorkerMessage | None]]) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            messages.put((self, msgspec.json.decode(line, type=WorkerMessage)))
        messages.put((self, None))


def _longest_warmup_s(task: Task) -> float:
    if isinstance(task, ConsumeTask):
        return 0.0  # It warms up while it reads.
    if task.warmup.records is not None:
        return task.warmup.records / (task.rate or _SLOWEST_PER_S)
    return task.warmup.seconds or 0.0


class WorkerPool:
    """Use through `worker_pool`."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._messages: queue.Queue[tuple[Worker, WorkerMessage | None]] = queue.Queue()
        self.workers: list[Worker] = []
        for kind in (ConsumeTask, ProduceTask):
            self._start([task for task in tasks if isinstance(task, kind)])

    def _start(self, tasks: list[Task]) -> None:
        processes = min(len(tasks), os.cpu_count() or 1)
        for number in range(processes):
            self.workers.append(Worker(tasks[number::processes], self._messages))

    def prepare(self) -> None:
        """Wait until every worker has connected and warmed up."""
        timeout_s = _PREPARE_S + max(worker.warmup_s for worker in self.workers)
        deadline = time.monotonic() + timeout_s
        while not all(worker.is_ready for worker in self.workers):
            if time.monotonic() > deadline:
                raise WorkerFailedError(f"the clients were not ready within {timeout_s:.0f} s")
            self._receive(_STEP_S)

    def run(
        self, report_progress: Callable[[int, float], None], enough: int | None = None
    ) -> tuple[Findings, Findings]:
        """Start the load and wait for its end; returns what was written and what was read.

        Reports records and seconds. Consumers stop after `enough` records in all; consumers of a live run stop when
        they have everything that producers wrote, or when no more records follow.
        """
        began_s = time.monotonic()
        written, read = Findings(), Findings()
        for worker in self.workers:
            worker.send(GO)
        try:
            self._watch(began_s, report_progress, written, read, enough)
        except KeyboardInterrupt:
            written.was_interrupted = read.was_interrupted = True
            self._stop()
        for worker in self.workers:
            (read if worker.is_reading else written).outcomes.extend(worker.outcomes)
        return written, read

    def _watch(
        self,
        began_s: float,
        report_progress: Callable[[int, float], None],
        written: Findings,
        read: Findings,
        enough: int | None,
    ) -> None:
        writers = [worker for worker in self.workers if not worker.is_reading]
        readers = [worker for worker in self.workers if worker.is_reading]
        seen, seen_s, next_s = 0, began_s, began_s + _STEP_S
        while not all(worker.is_over for worker in self.workers):
            self._receive(max(0.0, next_s - time.monotonic()))
            now_s = time.monotonic()
            if enough is None and writers and all(worker.is_over for worker in writers):
                enough, seen_s = sum(one.records for worker in writers for one in worker.outcomes), now_s
            count = sum(worker.progress.records for worker in readers)
            if count != seen:
                seen, seen_s = count, now_s
            if enough is not None and (seen >= enough or now_s - seen_s > self.workers[0].timeout_s):
                for worker in readers:
                    worker.send(STOP)
            if now_s >= next_s:
                next_s += _STEP_S
                self._record(now_s - began_s, report_progress, written, read)
        self._record(time.monotonic() - began_s, report_progress, written, read)

    def _record(
        self, seconds: float, report_progress: Callable[[int, float], None], written: Findings, read: Findings
    ) -> None:
        for findings, is_reading in ((written, False), (read, True)):
            own = [worker for worker in self.workers if worker.is_reading is is_reading]
            if own:
                findings.timeline.append((seconds, sum(worker.progress.records for worker in own)))
                report_progress(findings.timeline[-1][1], seconds)

    def _stop(self) -> None:
        deadline = time.monotonic() + _END_S + max(worker.timeout_s for worker in self.workers)
        for worker in self.workers:
            worker.send(STOP)
        while not all(worker.is_over for worker in self.workers) and time.monotonic() < deadline:
            self._receive(_STEP_S)

    def _receive(self, wait_s: float) -> None:
        try:
            worker, message = self._messages.get(timeout=max(wait_s, 0.001))
        except queue.Empty:
            return
        match message:
            case Ready():
                worker.is_ready = True
            case Progress():
                worker.progress = message
            case Outcome():
                worker.outcomes.append(message)
            case Failed(reason):
                raise WorkerFailedError(reason)
            case None:
                worker.is_over = True
                if not worker.outcomes:
                    raise WorkerFailedError(f"a client ended early: {worker.last_output_line()}")


@contextmanager
def worker_pool(tasks: Sequence[Task]) -> Iterator[WorkerPool]:
    """A pool whose processes are ended at the end."""
    pool = WorkerPool(tasks)
    try:
        yield pool
    finally:
        for worker in pool.workers:
            worker.close()


@dataclass(frozen=True, slots=True)
class Run:
    """The findings of a run."""

    written: Findings
    read: Findings
    used: Usage | None
    """Processor time of the brokers meanwhile, and their memory at the end; None where it is unknown."""

    @property
    def was_interrupted(self) -> bool:
        return self.written.was_interrupted or self.read.was_interrupted


def measured(
    tasks: Sequence[Task], pids: Sequence[int], report_progress: Callable[[int, float], None], enough: int | None = None
) -> Run:
    """Prepare and run these tasks; measures the brokers' usage."""
    with worker_pool(tasks) as pool:
        pool.prepare()
        before = usage(pids)
        written, read = pool.run(report_progress, enough)
        after = usage(pids)
    used = None
    if before is not None and after is not None:
        used = Usage(after.cpu_s - before.cpu_s, after.resident_bytes)
    return Run(written, read, used)

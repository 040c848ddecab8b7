"""All workers of a run: started, let go together, watched, and stopped; what they tell is joined here."""

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

from qanat.app.bench.broker.latencies import Latencies
from qanat.app.bench.broker.local import Usage, usage
from qanat.app.bench.broker.tasks import (
    GO,
    STOP,
    ConsumeTask,
    Crewed,
    Failed,
    Outcome,
    ProduceTask,
    Progress,
    Ready,
    Task,
    Told,
)
from qanat.model.errors import QanatError

_STEP_S = 0.25
"""How often it is looked how far everybody is."""
_PREPARE_S = 120.0
_END_S = 30.0
"""How long a worker that was told to stop may take beyond its own patience."""
_GOODBYE_S = 5.0
_SLOWEST_PER_S = 1000.0
"""Records a second that a producer at full speed may be expected to send while it warms up."""


class WorkerFailedError(QanatError):
    """A client could not do what it was asked to; the message says why."""


@dataclass(slots=True)
class Findings:
    """What came of a run, of all clients of one kind together."""

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
    """One process of the crew."""

    def __init__(self, tasks: Sequence[Task], heard: queue.Queue[tuple[Worker, Told | None]]) -> None:
        self.is_reading = isinstance(tasks[0], ConsumeTask)
        self.patience_s = tasks[0].patience_s
        self.warmup_s = max(_longest_warmup_s(task) for task in tasks)
        self.progress = Progress(0, 0, 0)
        self.outcomes: list[Outcome] = []
        self.is_ready = self.is_over = False
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._process = subprocess.Popen(
            [sys.executable, "-m", "qanat.app.bench.broker.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )
        self.say(msgspec.json.encode(Crewed(list(tasks))).decode())
        self._listener = threading.Thread(target=self._listen, args=(heard,), name="worker-listener", daemon=True)
        self._listener.start()

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except OSError:
            # It is gone; its listener says so.
            return

    def last_words(self) -> str:
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def close(self) -> None:
        """Whoever has not come to an end by now is not waited for."""
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

    def _listen(self, heard: queue.Queue[tuple[Worker, Told | None]]) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            heard.put((self, msgspec.json.decode(line, type=Told)))
        heard.put((self, None))


def _longest_warmup_s(task: Task) -> float:
    if isinstance(task, ConsumeTask):
        return 0.0  # It warms up while it reads.
    if task.warmup.records is not None:
        return task.warmup.records / (task.rate or _SLOWEST_PER_S)
    return task.warmup.seconds or 0.0


class Crew:
    """Use through `crew`."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._heard: queue.Queue[tuple[Worker, Told | None]] = queue.Queue()
        self.workers: list[Worker] = []
        for kind in (ConsumeTask, ProduceTask):
            self._hire([task for task in tasks if isinstance(task, kind)])

    def _hire(self, tasks: list[Task]) -> None:
        processes = min(len(tasks), os.cpu_count() or 1)
        for number in range(processes):
            self.workers.append(Worker(tasks[number::processes], self._heard))

    def prepare(self) -> None:
        """Until everybody has connected and warmed up."""
        patience_s = _PREPARE_S + max(worker.warmup_s for worker in self.workers)
        deadline = time.monotonic() + patience_s
        while not all(worker.is_ready for worker in self.workers):
            if time.monotonic() > deadline:
                raise WorkerFailedError(f"the clients were not ready within {patience_s:.0f} s")
            self._hear(_STEP_S)

    def run(self, tell: Callable[[int, float], None], enough: int | None = None) -> tuple[Findings, Findings]:
        """Let go, and wait for the end: what was written, what was read.

        `tell` hears records and seconds. `enough` records read by all together end the reading; those who read what
        the others write have enough when they have it all, or when nothing more comes.
        """
        began_s = time.monotonic()
        written, read = Findings(), Findings()
        for worker in self.workers:
            worker.say(GO)
        try:
            self._watch(began_s, tell, written, read, enough)
        except KeyboardInterrupt:
            written.was_interrupted = read.was_interrupted = True
            self._stop()
        for worker in self.workers:
            (read if worker.is_reading else written).outcomes.extend(worker.outcomes)
        return written, read

    def _watch(
        self, began_s: float, tell: Callable[[int, float], None], written: Findings, read: Findings, enough: int | None
    ) -> None:
        writers = [worker for worker in self.workers if not worker.is_reading]
        readers = [worker for worker in self.workers if worker.is_reading]
        seen, seen_s, next_s = 0, began_s, began_s + _STEP_S
        while not all(worker.is_over for worker in self.workers):
            self._hear(max(0.0, next_s - time.monotonic()))
            now_s = time.monotonic()
            if enough is None and writers and all(worker.is_over for worker in writers):
                enough, seen_s = sum(one.records for worker in writers for one in worker.outcomes), now_s
            count = sum(worker.progress.records for worker in readers)
            if count != seen:
                seen, seen_s = count, now_s
            if enough is not None and (seen >= enough or now_s - seen_s > self.workers[0].patience_s):
                for worker in readers:
                    worker.say(STOP)
            if now_s >= next_s:
                next_s += _STEP_S
                self._note(now_s - began_s, tell, written, read)
        self._note(time.monotonic() - began_s, tell, written, read)

    def _note(self, seconds: float, tell: Callable[[int, float], None], written: Findings, read: Findings) -> None:
        for findings, is_reading in ((written, False), (read, True)):
            own = [worker for worker in self.workers if worker.is_reading is is_reading]
            if own:
                findings.timeline.append((seconds, sum(worker.progress.records for worker in own)))
                tell(findings.timeline[-1][1], seconds)

    def _stop(self) -> None:
        deadline = time.monotonic() + _END_S + max(worker.patience_s for worker in self.workers)
        for worker in self.workers:
            worker.say(STOP)
        while not all(worker.is_over for worker in self.workers) and time.monotonic() < deadline:
            self._hear(_STEP_S)

    def _hear(self, wait_s: float) -> None:
        try:
            worker, told = self._heard.get(timeout=max(wait_s, 0.001))
        except queue.Empty:
            return
        match told:
            case Ready():
                worker.is_ready = True
            case Progress():
                worker.progress = told
            case Outcome():
                worker.outcomes.append(told)
            case Failed(reason):
                raise WorkerFailedError(reason)
            case None:
                worker.is_over = True
                if not worker.outcomes:
                    raise WorkerFailedError(f"a client ended before its time: {worker.last_words()}")


@contextmanager
def crew(tasks: Sequence[Task]) -> Iterator[Crew]:
    """Nobody of it is left at the end."""
    hired = Crew(tasks)
    try:
        yield hired
    finally:
        for worker in hired.workers:
            worker.close()


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that a run has found."""

    written: Findings
    read: Findings
    used: Usage | None
    """What the brokers took meanwhile, and their memory at the end; None where nobody knows."""

    @property
    def was_interrupted(self) -> bool:
        return self.written.was_interrupted or self.read.was_interrupted


def measured(
    tasks: Sequence[Task], pids: Sequence[int], tell: Callable[[int, float], None], enough: int | None = None
) -> Run:
    """Prepare and run."""
    with crew(tasks) as hired:
        hired.prepare()
        before = usage(pids)
        written, read = hired.run(tell, enough)
        after = usage(pids)
    used = None
    if before is not None and after is not None:
        used = Usage(after.cpu_s - before.cpu_s, after.resident_bytes)
    return Run(written, read, used)

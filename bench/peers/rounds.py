"""All systems of a table in turns, and the resulting lines."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.servers import Running, ServerFailedError

from bench import processes
from bench.clients import DriverFailedError, Task
from bench.peers.driving import NEW, TOPIC
from bench.peers.report import Line
from bench.peers.systems import Present
from bench.peers.workloads import START
from bench.workloads import BATCHED, Sample, Workload

SETTLE_SECONDS = 1.0
"""Memory is read after the start, not during it."""
_MB = 1e6
_WORDS = 500
"""Length of a driver's error in a report: its end says what was wrong."""


@dataclass(frozen=True, slots=True)
class Side:
    """A running system."""

    present: Present
    running: Running

    @property
    def name(self) -> str:
        return self.present.system.name

    def fill(self, workload: Workload) -> None:
        """Create and fill the stream to read."""
        self._run(Task("create", workload.name, settings=_of_topic(workload)))
        self._run(Task("produce", workload.name, workload.size, workload.count, settings=BATCHED))

    def sample(self, workload: Workload) -> Sample:
        """One run, on a new stream unless the workload reads an existing one."""
        mode = workload.mode if workload.is_filled else NEW + workload.mode
        settings = {**workload.client, **_of_topic(workload)}
        task = Task(mode, workload.name, workload.size, workload.count, workload.rate, settings)
        spent: list[float] = []

        def look() -> None:
            spent.append(sum(map(processes.cpu_seconds, self.running.pids)))

        found = self.present.client.run(self.running.address, task, look, look)
        return Sample(found, spent[1] - spent[0])

    def clear(self, workload: Workload) -> None:
        self._run(Task("delete", workload.name))

    def _run(self, task: Task) -> None:
        self.present.client.run(self.running.address, task)


class Rounds:
    """One run: rounds, folder and time limit."""

    def __init__(
        self,
        rounds: int,
        folder: Path,
        show: Callable[[str], None],
        seconds: float | None,
        *,
        is_warmed_up: bool = True,
    ) -> None:
        """`is_warmed_up`: whether a round before the others is measured, too, and not counted."""
        self._rounds = rounds
        self._folder = folder
        self._show = show
        self._folders = 0
        self._longest = 0.0
        self._began = time.monotonic()
        self._seconds = seconds
        self._is_warmed_up = is_warmed_up
        self.notes: list[str] = []
        """What was not measured, and why."""

    def table(
        self, systems: Sequence[Present], workloads: Sequence[Workload], *, is_durable: bool, share: float
    ) -> list[Line]:
        """Each workload on each of the systems, until this share of the time is over."""
        lines: list[Line] = []
        with self._started(systems, is_durable=is_durable) as sides:
            for workload in workloads:
                with self._if_there_is_time(f"{workload.name}{', durable' if is_durable else ''}", share) as is_time:
                    if is_time:
                        lines += self._measured(sides, workload)
        return lines

    def starts(self, systems: Sequence[Present]) -> list[Line]:
        """The time from the process's start to its first answer, and its memory then; a new process each time."""
        seconds: dict[str, list[float]] = {}
        idle: dict[str, list[float]] = {}
        broken: set[str] = set()
        with self._if_there_is_time(START, 1.0) as is_time:
            for number in range(1, self._rounds + 1 if is_time else 1):
                self._show(f"start, round {number}")
                for present in systems:
                    name = present.system.name
                    if name in broken:
                        continue
                    try:
                        with present.running(self._new_folder(), is_durable=False) as running:
                            time.sleep(SETTLE_SECONDS)
                            seconds.setdefault(name, []).append(running.start_seconds)
                            memory = processes.memory_of_all(running.pids).resident_bytes / _MB
                            idle.setdefault(name, []).append(memory)
                    except ServerFailedError as fault:
                        broken.add(name)
                        self.notes.append(f"{name} could not be started: {fault}")
        for name in broken:
            seconds.pop(name, None)
            idle.pop(name, None)
        lines = [
            Line(START, "process start to first answer", "s", seconds),
            Line(START, "idle memory, resident", "MB", idle),
        ]
        return [line for line in lines if line.values]

    @contextlib.contextmanager
    def _started(self, systems: Sequence[Present], *, is_durable: bool) -> Iterator[list[Side]]:
        with contextlib.ExitStack() as running:
            sides: list[Side] = []
            for present in systems:
                self._show(f"starting {present}")
                try:
                    server = running.enter_context(present.running(self._new_folder(), is_durable=is_durable))
                    sides.append(Side(present, server))
                except ServerFailedError as fault:
                    self.notes.append(f"{present} could not be started: {fault}")
            yield sides

    def _measured(self, sides: Sequence[Side], workload: Workload) -> list[Line]:
        samples: dict[str, list[Sample]] = {}
        taking = list(sides)
        for number in range(self._rounds + 1):
            self._show(f"{workload.what}, round {number}" if number else f"{workload.what}, warming up")
            for side in list(taking):
                try:
                    if not number:
                        self._warm_up(side, workload)
                    else:
                        samples.setdefault(side.name, []).append(side.sample(workload))
                except DriverFailedError as fault:
                    self.notes.append(f"{side.name}, {workload.name}: not measured: {str(fault)[-_WORDS:]}")
                    taking.remove(side)
                    samples.pop(side.name, None)
        if workload.is_filled:
            for side in taking:
                self._clear(side, workload)
        return lines_of(workload, samples)

    def _clear(self, side: Side, workload: Workload) -> None:
        try:
            side.clear(workload)
        except DriverFailedError as fault:
            self.notes.append(f"{side.name}, {workload.name}: its stream remained: {str(fault)[-_WORDS:]}")

    def _warm_up(self, side: Side, workload: Workload) -> None:
        """Filling a stream warms up; so does each driver before it prints "ready"."""
        if workload.is_filled:
            side.fill(workload)
        elif self._is_warmed_up:
            side.sample(workload)

    @contextlib.contextmanager
    def _if_there_is_time(self, what: str, share: float) -> Iterator[bool]:
        """Whether another run fits, judged by the longest one so far."""
        began = time.monotonic()
        if self._seconds is not None and began + self._longest > self._began + self._seconds * share:
            self.notes.append(f"{what} was left out: the time for this run was over")
            yield False
            return
        yield True
        self._longest = max(self._longest, time.monotonic() - began)

    def _new_folder(self) -> Path:
        self._folders += 1
        return self._folder / f"server-{self._folders}"


def lines_of(workload: Workload, samples: Mapping[str, Sequence[Sample]]) -> list[Line]:
    """One line for each figure of the workload."""
    return [
        Line(
            workload.name,
            ", ".join(filter(None, (workload.what, figure.what))),
            figure.unit,
            {name: [figure.of(sample) for sample in found] for name, found in samples.items()},
        )
        for figure in workload.figures
    ]


def _of_topic(workload: Workload) -> dict[str, str]:
    return {TOPIC + name: value for name, value in workload.topic.items()}

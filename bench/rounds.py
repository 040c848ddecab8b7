"""Workloads on both sides in turns, and the rows that come out of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench import processes
from bench.bare import BareSide
from bench.clients import Client, Task
from bench.servers import Running, Startable
from bench.workloads import BATCHED, IDLE_MEMORY_REQUIRED, START, START_REQUIRED, Sample, Workload
from qanat.app.bench.figures import Limit, Row, row

SETTLE_SECONDS = 1.0
"""Memory is looked at when the start is over, not in the middle of it."""
PAUSE_SECONDS = 0.2
_MB = 1e6
WARM_UP = Task("produce", "warm-up", 100, 300_000, settings=BATCHED)


class Side(Protocol):
    """A server with the means to load it."""

    def prepare(self, workload: Workload) -> None: ...
    def sample(self, workload: Workload) -> Sample: ...
    def clear(self, workload: Workload) -> None: ...


class BrokerSide:
    """A broker, driven by the client."""

    def __init__(self, client: Client, running: Running) -> None:
        self._client = client
        self._running = running

    def warm_up(self) -> None:
        """What a virtual machine needs before it is worth a measurement."""
        self._client.run(self._running.address, Task("create", WARM_UP.topic))
        self._client.run(self._running.address, WARM_UP)

    def prepare(self, workload: Workload) -> None:
        """Fill the topic that is going to be read."""
        self._create(workload)
        filling = Task("produce", workload.name, workload.size, workload.count, settings=BATCHED)
        self._client.run(self._running.address, filling)

    def sample(self, workload: Workload) -> Sample:
        """One run, on a topic of its own unless the workload reads one that is there."""
        task = Task(workload.mode, workload.name, workload.size, workload.count, workload.rate, workload.client)
        spent: list[float] = []

        def look() -> None:
            spent.append(sum(map(processes.cpu_seconds, self._running.pids)))

        if not workload.is_filled:
            self._create(workload)
        found = self._client.run(self._running.address, task, look, look)
        if not workload.is_filled:
            self.clear(workload)
            time.sleep(PAUSE_SECONDS)
        return Sample(found, spent[1] - spent[0])

    def clear(self, workload: Workload) -> None:
        self._client.run(self._running.address, Task("delete", workload.name))

    def _create(self, workload: Workload) -> None:
        self._client.run(self._running.address, Task("create", workload.name, settings=workload.topic))


@dataclass(frozen=True, slots=True)
class Pair:
    """Both servers at work, and both as sides of a comparison."""

    ours: Running
    other: Running
    sides: tuple[Side, Side]


class Rounds:
    """One run: the two servers, who drives them, how often, and where everybody's files are."""

    def __init__(
        self,
        ours: Startable,
        other: Startable,
        rounds: int,
        folder: Path,
        tell: Callable[[str], None],
        *,
        is_judged: bool,
    ) -> None:
        self._servers = (ours, other)
        self._rounds = rounds
        self._folder = folder
        self._tell = tell
        self._is_judged = is_judged
        self._folders = 0

    @contextlib.contextmanager
    def both(self, client: Client) -> Iterator[Pair]:
        """Both started and warm."""
        ours, other = self._servers
        with ours.running(self._new_folder()) as one, other.running(self._new_folder()) as two:
            sides = [BrokerSide(client, one), BrokerSide(client, two)] if self._is_judged else [BrokerSide(client, one)]
            for side in sides:
                side.warm_up()
            yield Pair(one, two, (sides[0], sides[1] if self._is_judged else BareSide(two)))

    def measure(self, workload: Workload, pair: Pair) -> list[Row]:
        """A workload's figures. One round before the others warms up and does not count."""
        for side in pair.sides:
            if workload.is_filled:
                side.prepare(workload)
        samples: list[list[Sample]] = [[], []]
        for number in range(self._rounds + 1):
            self._tell(f"{workload.what}, round {number}" if number else f"{workload.what}, warming up")
            for side, found in zip(pair.sides, samples, strict=True):
                sample = side.sample(workload)
                if number:
                    found.append(sample)
        for side in pair.sides:
            if workload.is_filled:
                side.clear(workload)
        return self._rows(workload, samples[0], samples[1])

    def _rows(self, workload: Workload, ours: Sequence[Sample], other: Sequence[Sample]) -> list[Row]:
        return [
            row(
                workload.name,
                ", ".join(filter(None, (workload.what, figure.what))),
                figure.unit,
                [figure.of(sample) for sample in ours],
                self._beside([figure.of(sample) for sample in other]),
                figure.required if self._is_judged else None,
            )
            for figure in workload.figures
        ]

    def _beside(self, values: Sequence[float]) -> Limit:
        return Limit(values, str(self._servers[1]))

    def loaded_memory(self, pair: Pair) -> list[Row]:
        """Memory after everything else, of all processes of a side together."""
        ours, other = processes.memory_of_all(pair.ours.pids), processes.memory_of_all(pair.other.pids)
        resident, own = self._beside([other.resident_bytes / _MB]), self._beside([other.own_bytes / _MB])
        what = "memory after all workloads"
        return [
            row("memory", f"{what}, resident", "MB", [ours.resident_bytes / _MB], resident),
            row("memory", f"{what}, without mapped files", "MB", [ours.own_bytes / _MB], own),
        ]

    def starts(self) -> list[Row]:
        """From the process's start to its first answer, and the memory that it then has; a new process each time."""
        seconds: list[list[float]] = [[], []]
        idle: list[list[float]] = [[], []]
        for number in range(self._rounds + 1):
            self._tell(f"start, round {number}" if number else "start, warming up")
            for side, server in enumerate(self._servers):
                with server.running(self._new_folder()) as running:
                    time.sleep(SETTLE_SECONDS)
                    if number:
                        seconds[side].append(running.start_seconds)
                        idle[side].append(processes.memory(running.pid).resident_bytes / _MB)
        start, memory = (START_REQUIRED, IDLE_MEMORY_REQUIRED) if self._is_judged else (None, None)
        what = "process start to first answered request"
        return [
            row(START, what, "s", seconds[0], self._beside(seconds[1]), start),
            row("memory", "idle, resident", "MB", idle[0], self._beside(idle[1]), memory),
        ]

    def _new_folder(self) -> Path:
        self._folders += 1
        return self._folder / f"server-{self._folders}"

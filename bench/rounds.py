"""Workloads on both sides in turns, and the resulting rows."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.servers import Running, ServerFailedError, Startable

from bench import processes
from bench.bare import BareSide
from bench.clients import Client, DriverFailedError
from bench.cold import StillWarmError
from bench.sides import BrokerSide, Side
from bench.workloads import IDLE_MEMORY, LOADED_MEMORY, START, START_SECONDS, Growth, Sample, Workload, at_least
from qanat.app.bench.figures import Limit, Required, Row, row

SETTLE_SECONDS = 1.0
"""Memory is read after the start, not during it."""
_MB = 1e6
_FLAT, _FLATTER = 1.0, 1.1
"""With more partitions or clients: the requirement is Kafka's share of the throughput of one, more is the goal."""
Show = Callable[[str], None]
_WORDS = 300
"""Length of a driver's error in a note: its end says what was wrong."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Both running servers, and both as sides of a comparison."""

    ours: Running
    other: Running
    sides: tuple[Side, Side]
    watches: tuple[processes.MemoryWatch, ...] = ()
    """Samplers of the memory of each."""

    @property
    def both(self) -> tuple[Running, Running]:
        return self.ours, self.other


@dataclass(slots=True)
class Trial:
    """One workload on both sides: their samples, and which of them has failed."""

    workload: Workload
    samples: tuple[list[Sample], list[Sample]] = field(default_factory=lambda: ([], []))
    has_failed: list[bool] = field(default_factory=lambda: [False, False])


class Rounds:
    """One run: the two servers, the number of rounds, and the folder of all files."""

    def __init__(
        self,
        ours: Startable,
        other: Startable,
        rounds: int,
        folder: Path,
        show: Show,
        *,
        is_judged: bool,
        notes: list[str] | None = None,
    ) -> None:
        """A failure goes into `notes`, and the run continues; without `notes` it raises."""
        self._servers = (ours, other)
        self._rounds = rounds
        self._folder = folder
        self._show = show
        self._is_judged = is_judged
        self._notes = notes
        self._folders = 0

    @contextlib.contextmanager
    def both(self, client: Client) -> Iterator[Pair]:
        """Both started and warm."""
        ours, other = self._servers
        with ours.running(self._new_folder()) as one, other.running(self._new_folder()) as two:
            sides = [BrokerSide(client, one), BrokerSide(client, two)] if self._is_judged else [BrokerSide(client, one)]
            for side in sides:
                side.warm_up()
            both = (sides[0], sides[1] if self._is_judged else BareSide(two))
            with processes.MemoryWatch(one.pids) as ours_watched, processes.MemoryWatch(two.pids) as other_watched:
                yield Pair(one, two, both, (ours_watched, other_watched))

    def measure(self, workload: Workload, pair: Pair) -> list[Row]:
        """The rows of a workload. A first round warms up and does not count."""
        return self._rows(self._take_turns([workload], pair)[0])

    def measure_growth(self, growth: Growth, pair: Pair) -> list[Row]:
        """The rows of each workload, and the share of the first one's throughput that the others keep, by round.

        The share is at most 1: docs/decisions/0010-what-is-judged.md.
        """
        first, *others = trials = self._take_turns(growth.workloads, pair)
        rows = [one for trial in trials for one in self._rows(trial)]
        base = [_rates(first, side) for side in range(2)]
        for trial in others:
            kept = [_kept(_rates(trial, side), base[side]) for side in range(2)]
            if kept[0] and kept[1]:
                bounds = self._if_judged((at_least(_FLAT), at_least(_FLATTER)))
                what = f"{trial.workload.what}, keeps of the throughput of 1 {growth.of}"
                rows.append(row(trial.workload.name, what, "×", kept[0], self._beside(kept[1]), *bounds))
        return rows

    def _take_turns(self, workloads: Sequence[Workload], pair: Pair) -> list[Trial]:
        trials = [Trial(workload) for workload in workloads]
        for trial in trials:
            for number, side in enumerate(pair.sides):
                with self._noting(trial, number, pair):
                    side.prepare(trial.workload)
        for round_number in range(self._rounds + 1):
            for trial in trials:
                what = trial.workload.what
                self._show(f"{what}, round {round_number}" if round_number else f"{what}, warming up")
                for turn in range(trial.workload.turns if round_number else 1):
                    # The sides alternate in going first: a machine that becomes slower favours neither.
                    for number in (0, 1) if (round_number + turn) % 2 else (1, 0):
                        self._sample(trial, number, pair, is_counted=round_number > 0)
        for trial in trials:
            for side in pair.sides:
                with contextlib.suppress(DriverFailedError):
                    side.clear(trial.workload)
        return trials

    def _sample(self, trial: Trial, number: int, pair: Pair, *, is_counted: bool) -> None:
        if trial.has_failed[number]:
            return
        with self._noting(trial, number, pair):
            sample = pair.sides[number].sample(trial.workload)
            if is_counted:
                trial.samples[number].append(sample)

    @contextlib.contextmanager
    def _noting(self, trial: Trial, number: int, pair: Pair) -> Iterator[None]:
        try:
            yield
        except (DriverFailedError, StillWarmError, ConnectionError) as fault:
            if self._notes is None:
                raise
            server = self._servers[number]
            if not processes.are_alive(pair.both[number].pids):
                raise ServerFailedError(f"{server} ended during {trial.workload.what}: {fault}") from fault
            trial.has_failed[number] = True
            trial.samples[number].clear()
            self._notes.append(f"{trial.workload.what} failed on {server}: {str(fault)[-_WORDS:]}")

    def _rows(self, trial: Trial) -> list[Row]:
        """The rows of a trial: none where Qanat failed, Qanat's figures alone where the other side failed."""
        workload, (ours, other) = trial.workload, trial.samples
        if not ours:
            return []
        return [
            row(
                workload.name,
                ", ".join(filter(None, (workload.what, figure.what))),
                figure.unit,
                [figure.of(sample) for sample in ours],
                self._beside([figure.of(sample) for sample in other]) if other else None,
                *(self._if_judged((figure.required, figure.goal)) if other else ()),
            )
            for figure in workload.figures
        ]

    def _if_judged(self, bounds: tuple[Required | None, Required | None]) -> tuple[Required | None, Required | None]:
        return bounds if self._is_judged else (None, None)

    def _beside(self, values: Sequence[float]) -> Limit:
        return Limit(values, str(self._servers[1]))

    def loaded_memory(self, pair: Pair, what: str = "all workloads") -> list[Row]:
        """Peak memory during the workloads and memory after them, of all processes of a side together."""
        ours, other = (processes.memory_of_all(one.pids) for one in pair.both)
        peaks = [processes.peak_resident_bytes(one.pids) / _MB for one in pair.both]
        resident, own = self._beside([other.resident_bytes / _MB]), self._beside([other.own_bytes / _MB])
        most = [watch.most_own_bytes / _MB for watch in pair.watches]
        bounds = self._if_judged(LOADED_MEMORY)
        return [
            row("memory", f"memory during {what}, peak resident", "MB", peaks[:1], self._beside(peaks[1:])),
            row(
                "memory", f"memory during {what}, without mapped files", "MB", most[:1], self._beside(most[1:]), *bounds
            ),
            row("memory", f"memory after {what}, resident", "MB", [ours.resident_bytes / _MB], resident),
            row("memory", f"memory after {what}, without mapped files", "MB", [ours.own_bytes / _MB], own),
        ]

    def starts(self, *, is_warm: bool = False) -> list[Row]:
        """The time from the process's start to its first answer, and its memory then; a new process each time.

        Where both were started just before, no round warms up.
        """
        seconds: list[list[float]] = [[], []]
        idle: list[list[float]] = [[], []]
        for number in range(1 if is_warm else 0, self._rounds + 1):
            self._show(f"start, round {number}" if number else "start, warming up")
            for side, server in enumerate(self._servers):
                with server.running(self._new_folder()) as running:
                    time.sleep(SETTLE_SECONDS)
                    if number:
                        seconds[side].append(running.start_seconds)
                        idle[side].append(processes.memory(running.pid).resident_bytes / _MB)
        start, memory = self._if_judged(START_SECONDS), self._if_judged(IDLE_MEMORY)
        what = "process start to first answered request"
        return [
            row(START, what, "s", seconds[0], self._beside(seconds[1]), *start),
            row("memory", "idle, resident", "MB", idle[0], self._beside(idle[1]), *memory),
        ]

    def _new_folder(self) -> Path:
        self._folders += 1
        return self._folder / f"server-{self._folders}"


def _rates(trial: Trial, side: int) -> list[float]:
    return [sample.messages_per_second for sample in trial.samples[side]]


def _kept(values: Sequence[float], base: Sequence[float]) -> list[float]:
    return [min(one / first, 1.0) for one, first in zip(values, base, strict=True)] if values and base else []

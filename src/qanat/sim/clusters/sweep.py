"""Many lives of clusters: as many seeds as there is time for, in several processes, over several evenings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path

from msgspec import Struct, field
from msgspec.json import Decoder, encode

from qanat.sim.clusters.run import ClusterRun, Report

_AHEAD = 4
"""Seeds handed out for every process."""


class Totals(Struct):
    """What a sweep has done."""

    seeds: int = 0
    virtual_s: float = 0.0
    acknowledged: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    failed: list[Report] = field(default_factory=list)

    def add(self, report: Report) -> None:
        self.seeds += 1
        self.virtual_s += report.virtual_s
        self.acknowledged += report.acknowledged
        for name, times in report.faults.items():
            self.faults[name] = self.faults.get(name, 0) + times
        if report.problems:
            self.failed.append(report)


class Notebook:
    """What came of the seeds so far, a line for each in a file: a sweep that was stopped goes on where it was."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.reports: list[Report] = []
        if path is not None and path.exists():
            whole = path.read_bytes().rpartition(b"\n")[0]  # The last line may be torn.
            path.write_bytes(whole + b"\n" if whole else b"")
            self.reports = Decoder(Report).decode_lines(whole)

    def left(self, seeds: Iterable[int]) -> Iterator[int]:
        done = {report.seed for report in self.reports}
        return (seed for seed in seeds if seed not in done)

    def note(self, report: Report) -> None:
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(encode(report) + b"\n")


def run_seed(seed: int) -> Report:
    return ClusterRun(seed).run()


def run_twice(seed: int) -> Report:
    """Run a seed two times: two traces are a failure as well."""
    first, second = run_seed(seed), run_seed(seed)
    if first.trace != second.trace:
        second.problems.append(f"two traces of one seed: {first.trace[:16]} and {second.trace[:16]}")
    return second


def reports(act: Callable[[int], Report], seeds: Iterable[int], seconds: float | None, jobs: int) -> Iterator[Report]:
    """What came of these seeds, until the time is up."""
    started = time.monotonic()
    left = iter(seeds)

    def is_over() -> bool:
        return seconds is not None and time.monotonic() - started >= seconds

    if jobs == 1:
        for seed in left:
            if is_over():
                return
            yield act(seed)
        return
    with ProcessPoolExecutor(jobs) as pool:
        while not is_over() and (piece := list(islice(left, jobs * _AHEAD))):
            yield from pool.map(act, piece)

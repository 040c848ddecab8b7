"""Many lives of clusters: as many seeds as there is time for, in several processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import count, islice

from msgspec import Struct, field

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


def run_seed(seed: int) -> Report:
    return ClusterRun(seed).run()


def run_twice(seed: int) -> Report:
    """Run a seed two times: two traces are a failure as well."""
    first, second = run_seed(seed), run_seed(seed)
    if first.trace != second.trace:
        second.problems.append(f"two traces of one seed: {first.trace[:16]} and {second.trace[:16]}")
    return second


def reports(
    act: Callable[[int], Report], seeds: Sequence[int] | None, first: int, seconds: float | None, jobs: int
) -> Iterator[Report]:
    """What came of these seeds, or of all from `first` on, until the time is up."""
    started = time.monotonic()
    left = iter(seeds if seeds is not None else count(first))

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

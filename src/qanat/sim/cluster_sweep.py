"""`python -m qanat.sim.cluster_sweep`: clusters from seeds, hurt and healed, until time, seeds or patience run out.

    python -m qanat.sim.cluster_sweep --seconds 600          as many seeds as fit, from a place of its own
    python -m qanat.sim.cluster_sweep --seeds 1-200          these
    python -m qanat.sim.cluster_sweep --seeds 17 --twice     one seed again, and whether it gives one trace

Exit status 1 where a seed failed. Ctrl-C ends the sweep and reports what was done so far.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice

from msgspec import Struct, field

from qanat.sim.cluster_run import ClusterRun, Report

_SHOWN = 10
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
        for name, count in report.faults.items():
            self.faults[name] = self.faults.get(name, 0) + count
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


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    totals = Totals()
    started = time.monotonic()
    try:
        for report in _reports(options, started):
            totals.add(report)
            _show_progress(totals, report, time.monotonic() - started)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
    _report(totals, time.monotonic() - started)
    return 1 if totals.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m qanat.sim.cluster_sweep", description="Hurt and heal clusters.")
    parser.add_argument("--seconds", type=float, help="how long (default 30 without --seeds)")
    parser.add_argument("--seeds", type=_range, help="which, as 1-200 or 17")
    parser.add_argument("--first", type=int, default=1, help="the first seed of a sweep by time")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--twice", action="store_true", help="run each seed two times and compare")
    return parser


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _reports(options: argparse.Namespace, started: float) -> Iterator[Report]:
    seconds = options.seconds if options.seconds is not None or options.seeds is not None else 30.0
    seeds = iter(options.seeds or range(options.first, 2**62))
    act = run_twice if options.twice else run_seed

    def is_over() -> bool:
        return seconds is not None and time.monotonic() - started >= seconds

    if options.jobs == 1:
        for seed in seeds:
            if is_over():
                return
            yield act(seed)
        return
    with ProcessPoolExecutor(options.jobs) as pool:
        while not is_over() and (piece := list(islice(seeds, options.jobs * _AHEAD))):
            yield from pool.map(act, piece)


def _show_progress(totals: Totals, report: Report, seconds: float) -> None:
    if sys.stderr.isatty():
        line = f"seed {report.seed}: {totals.seeds} seeds, {totals.virtual_s / 3600:.2f} virtual hours"
        print(
            f"\r{line}, {totals.seeds / max(seconds, 0.001):.1f}/s, {len(totals.failed)} failed",
            end="",
            file=sys.stderr,
        )
    if report.problems:
        print(f"\nFAILED seed {report.seed}: {report.problems[0]}", file=sys.stderr, flush=True)


def _report(totals: Totals, seconds: float) -> None:
    for report in totals.failed[:_SHOWN]:
        print(f"FAILED seed {report.seed}, {report.plan}")
        for problem in report.problems[:_SHOWN]:
            print(f"  {problem}")
        print(f"  replay: python -m qanat.sim.cluster_sweep --seeds {report.seed}")
    if len(totals.failed) > _SHOWN:
        print(f"... and {len(totals.failed) - _SHOWN} more")
    faults = ", ".join(f"{count} x {name}" for name, count in sorted(totals.faults.items()))
    print(
        f"{totals.seeds} seeds, {totals.virtual_s / 3600:.2f} virtual hours in {seconds:.0f} s "
        f"({totals.virtual_s / max(seconds, 0.001):.0f} times as fast), {totals.acknowledged} records acknowledged\n"
        f"faults: {faults or 'none'}\n"
        f"anomalies: {sum(len(report.problems) for report in totals.failed) or 'none'}"
    )


if __name__ == "__main__":
    sys.exit(main())

"""`python -m verify.clusters`: simulated clusters under faults, from seeds, until the time or the seeds run out.

    python -m verify.clusters --seconds 600          as many seeds as fit, from --first on
    python -m verify.clusters --seeds 1-200          these seeds
    python -m verify.clusters --seeds 17 --twice     one seed again, and whether it gives one trace
    python -m verify.clusters --seeds 1-10000 --notes FILE
                                                     a long sweep, which resumes where it was stopped

Exit status 1 where a seed failed. Ctrl-C and SIGTERM end the sweep with all its processes, and the report covers the
runs so far.
"""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import time
from contextlib import closing
from itertools import count
from pathlib import Path

from verify.clusters.run import Report
from verify.clusters.sweep import Notebook, Totals, reports, run_seed, run_twice

_DEFAULT_SECONDS = 30.0
_SHOWN = 10


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    totals, notebook = Totals(), Notebook(options.notes)
    for report in notebook.reports:
        totals.add(report)
    gc.freeze()  # Imported modules stay: no run's collection has to visit them.
    started = time.monotonic()
    try:
        seconds = options.seconds if options.seconds is not None or options.seeds is not None else _DEFAULT_SECONDS
        act = run_twice if options.twice else run_seed
        seeds = notebook.left(options.seeds if options.seeds is not None else count(options.first))
        with closing(reports(act, seeds, seconds, options.jobs)) as found:
            for report in found:
                totals.add(report)
                notebook.note(report)
                _show_progress(totals, report, time.monotonic() - started)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
    _report(totals, time.monotonic() - started)
    return 1 if totals.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m verify.clusters", description="Run simulated clusters under seeded faults."
    )
    parser.add_argument("--seconds", type=float, help="how long (default 30 without --seeds)")
    parser.add_argument("--seeds", type=_range, help="which, as 1-200 or 17")
    parser.add_argument("--first", type=int, default=1, help="the first seed of a sweep by time")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--notes", type=Path, help="file of reports; seeds that are in it are skipped")
    parser.add_argument("--twice", action="store_true", help="run each seed two times and compare")
    return parser


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


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
        print(f"  replay: python -m verify.clusters --seeds {report.seed}")
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
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())

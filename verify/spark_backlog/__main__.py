"""`python -m verify.spark_backlog`: a pipeline over a backlog; exits with 1 where its result is a wrong one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from verify.spark_backlog.conductor import PIPELINES, Outcome, run_over_backlog


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m verify.spark_backlog", description="A pipeline over a backlog, with default settings and kill -9."
    )
    parser.add_argument("--pipeline", choices=[*PIPELINES, "all"], default="all")
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--kills", type=int, default=3, help="in turn: driver, broker, Java, worker")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dir", type=Path, help="folder for brokers' data, if not the system's for temporary files")
    given = parser.parse_args()
    is_clean = True
    for pipeline in PIPELINES if given.pipeline == "all" else [given.pipeline]:
        with TemporaryDirectory(prefix="spark-backlog-", dir=given.dir, ignore_cleanup_errors=True) as folder:
            outcome = run_over_backlog(Path(folder), pipeline, given.records, given.kills, given.seed, _show)
        _print(pipeline, outcome)
        is_clean = is_clean and not outcome.problems
    return 0 if is_clean else 1


def _print(pipeline: str, outcome: Outcome) -> None:
    killed = ", ".join(f"{count} x {what}" for what, count in outcome.kills.items()) or "nothing"
    peaks = ", ".join(f"{kind} {size:,.0f} MB" for kind, size in sorted(outcome.peaks_mb.items()))
    print(
        f"{pipeline}: {outcome.records:,} records in {outcome.run_s:.0f} s, "
        f"{outcome.records / outcome.run_s:,.0f} records/s with all starts; killed: {killed}"
    )
    print(f"  filled in {outcome.fill_s:.0f} s; largest memory: {peaks}")
    for line in outcome.seen:
        print(f"  {line}")
    for problem in outcome.problems:
        print(f"  {problem}")
    print("  as a plain computation has it" if not outcome.problems else "  FAILED", flush=True)


def _show(text: str) -> None:
    print(f"spark backlog: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

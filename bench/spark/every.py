"""`python -m bench.spark.every`: every figure of Spark in one run and one table, each with its bar and its ratio.

1. Brokers on this machine and in a network namespace (Linux, root), beside Spark's connector and the ceiling: 4 M rows.
2. What the driver sends for an exactly-once write by executors elsewhere (the same).
3. Pipelines in steady state beside what stands for their ceiling.

The parts run one after the other; the turns are within each. `--quick` shows that all of it works, and is no measure.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import which
from subprocess import CalledProcessError

from bench.spark import __main__ as workloads
from bench.spark import pipelines, remote_ingest
from bench.spark.sides import EngineFailedError
from qanat.app.bench import report
from qanat.app.bench.figures import Row
from qanat.app.bench.report import Result

RECORDS = 4_000_000
_QUICK_RECORDS = 400_000
_QUICK_PIPELINES = 1_500_000


def main(arguments: Sequence[str]) -> int:
    given = _parser().parse_args(arguments)
    records = _QUICK_RECORDS if given.quick else RECORDS
    rows: list[Row] = []
    settings: dict[str, str] = {}
    notes: list[str] = []
    result = Result({}, settings, rows, [], notes)
    failed = []
    for name, measure in _parts(records, given).items():
        try:
            found = measure()
        except (EngineFailedError, CalledProcessError) as fault:
            failed.append(f"bench.spark.every: {name} could not be measured: {fault}")
            continue
        rows += [replace(one, figure=f"{name}: {one.figure}") for one in found.rows]
        settings |= {f"{name}: {key}": value for key, value in found.settings.items()}
        notes += [note for note in found.notes if note not in notes]
        result = Result(found.machine, settings, rows, [], notes)
        if given.json is not None:
            given.json.write_text(report.as_json(result) + "\n")
    report.print_table(result)
    for key, value in {**result.machine, **result.settings}.items():
        print(f"{key}: {value}")
    for sentence in failed:
        print(sentence, file=sys.stderr)
    return 2 if failed else 1 if given.check and result.missed else 0


def _parts(records: int, given: argparse.Namespace) -> dict[str, Callable[[], Result]]:
    """What is measured, in its order."""
    options = ["--records", str(records), *(["--skip-connector"] if given.skip_connector else [])]
    here = workloads.parser().parse_args(options)
    there = workloads.parser().parse_args([*options, "--elsewhere"])
    pairs, uploaded = (1, records) if given.quick else (5, 10_000_000)
    of_pipelines, rounds = (_QUICK_PIPELINES, 1) if given.quick else (3_000_000, 3)
    parts: dict[str, Callable[[], Result]] = {"here": lambda: workloads.measured(here)}
    if os.geteuid() == 0 and which("ip") is not None:
        parts["elsewhere"] = lambda: workloads.measured(there)
        parts["driver"] = lambda: remote_ingest.measured_pairs(pairs, uploaded)
    else:
        print("bench.spark.every: no network namespaces: they need root and `ip`", file=sys.stderr)
    parts["pipelines"] = lambda: pipelines.measured(of_pipelines, rounds)
    return parts


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m bench.spark.every", description="Every figure of Spark in one run, with its bar."
    )
    parser.add_argument("--quick", action="store_true", help="few records: shows that it works, and measures nothing")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a required ratio is not met")
    parser.add_argument("--json", type=Path, help="also write the result into this file, after each part")
    parser.add_argument("--skip-connector", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

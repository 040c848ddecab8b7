"""`qanat bench log`: measure the log on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from qanat.app.bench import machine, report
from qanat.app.bench.figures import FEWEST_ROUNDS, Row
from qanat.app.bench.log_figures import (
    append,
    breakdown,
    columns,
    commit,
    lookup,
    markdown_page,
    memory,
    opening,
    plan,
    read,
)
from qanat.app.bench.log_figures.plan import MIB, Bench, Plan
from qanat.app.bench.report import Result
from qanat.app.bench.workspace import BenchRefusedError, workspace
from qanat.app.terminal.progress import status_line

_SPARE_BYTES = 256 * MIB
EXIT_NOT_MET = 1


@dataclass(frozen=True, slots=True)
class Figure:
    """A measurement, and the disk space that it needs."""

    measure: Callable[[Bench], list[Row]]
    needed_bytes: Callable[[Plan], int]


FIGURES = {
    "append": Figure(append.measure, lambda sizes: 2 * sizes.append_bytes),
    "commit": Figure(commit.measure, lambda sizes: 2 * sizes.commit_bytes),
    "read": Figure(read.measure, lambda sizes: sizes.read_bytes),
    "lookup": Figure(lookup.measure, lambda sizes: sizes.index_bytes),
    "columns": Figure(columns.measure, lambda sizes: 0),
    "open": Figure(opening.measure, lambda sizes: sizes.partitions * MIB // 4),
    "memory": Figure(memory.measure, lambda sizes: sizes.idle_partitions * MIB // 4),
}


def bench_log(
    *,
    only: str = "",
    quick: bool = False,
    rounds: int = 5,
    dir: Path | None = None,  # noqa: A002 - the option's name
    output: Annotated[Literal["table", "json"], Parameter(name=["--output", "-o"])] = "table",
    markdown: Path | None = None,
    check: bool = False,
) -> int:
    """Measure the log on this machine, each figure beside its physical limit.

        qanat bench log --quick
        qanat bench log --only append,read --rounds 9 -o json

    Parameters
    ----------
    only:
        Measure only these, separated by commas: append, commit, read, lookup, columns, open, memory.
    quick:
        Measure less: some twenty seconds instead of up to three minutes.
    rounds:
        How often each figure is measured, alternating with its limit; at least 3.
    dir:
        Folder on the disk to measure. Default: the current one. Written files are removed again.
    output:
        `table` for people, `json` for programs.
    markdown:
        Also write the result as a page into this file.
    check:
        Exit with 1 if a figure is not met.
    """
    chosen = _chosen(only)
    _check_rounds(rounds)
    if markdown is not None:
        _check_page(markdown)
    sizes = plan.QUICK if quick else plan.FULL
    needed_bytes = _SPARE_BYTES + max(FIGURES[name].needed_bytes(sizes) for name in chosen)
    with workspace(dir or Path.cwd(), needed_bytes) as folder, status_line("measuring ") as report_progress:
        result = measure(chosen, Bench(folder, sizes, rounds, report_progress, []))
    if output == "json":
        print(report.as_json(result))
    else:
        report.print_table(result)
    if markdown is not None:
        markdown.write_text(markdown_page.as_markdown(result))
    return _judge(result) if check else 0


def measure(chosen: Sequence[str], bench: Bench) -> Result:
    """Run the chosen measurements one after another."""
    rows: list[Row] = []
    for name in chosen:
        bench.report_progress(name)
        rows += FIGURES[name].measure(bench)
    parts = []
    if "append" in chosen:
        bench.report_progress("where the time of one append goes")
        parts = breakdown.measure(bench)
    settings = {
        "rounds": str(bench.rounds),
        "run": "quick" if bench.plan is plan.QUICK else "full",
        "figures": ", ".join(chosen),
    }
    return Result(machine.describe(bench.folder), settings, rows, parts, bench.notes)


def _chosen(only: str) -> list[str]:
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    if only and not wanted:
        raise BenchRefusedError(f"--only {only} names no figure; choose among {', '.join(FIGURES)}")
    unknown = [name for name in wanted if name not in FIGURES]
    if unknown:
        raise BenchRefusedError(f"there is no figure {', '.join(unknown)}; choose among {', '.join(FIGURES)}")
    return [name for name in FIGURES if name in wanted] or list(FIGURES)


def _check_rounds(rounds: int) -> None:
    if rounds < FEWEST_ROUNDS:
        raise BenchRefusedError(
            f"{rounds} rounds are too few on a machine that runs other programs too: use at least {FEWEST_ROUNDS}"
        )


def _judge(result: Result) -> int:
    for row in result.missed:
        print(f"qanat: not met: {row.figure}: {row.what}", file=sys.stderr)
    return EXIT_NOT_MET if result.missed else 0


def _check_page(path: Path) -> None:
    """Raise before the run if the page cannot be written."""
    if path.is_dir() or not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise BenchRefusedError(f"cannot write {path}: the file is not writable, or its folder does not exist")

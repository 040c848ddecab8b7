"""The terminal output of the chapter on Spark: progress, rollups, figures, and the path of the report."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from demo import report
from demo.pipeline import Callbacks, Outcome, run
from qanat.app.pipelines.progress_display import line
from qanat.spark.pipelines.progress import Tally
from qanat.spark.session import NoJavaError, NoSparkError, require_java

SHOWN_EVERY = 500_000
"""A line whenever so many measurements are sent."""


def show_pipeline(console: Console, folder: Path, minutes: int, target: Path) -> None:
    """Run the chapter and print it; where Spark cannot run, print why and skip it."""
    try:
        require_java()
        outcome = _run(console, folder, minutes)
    except (NoJavaError, NoSparkError) as fault:
        console.print(f"[bold yellow]The data pipeline is left out:[/] {fault}. The rest needs neither.")
        return
    figures = _figures(outcome)
    page = report.write(target, outcome.rollups, figures, outcome.checks, outcome.rates)
    console.print(_drawn(report.hourly(outcome.rollups)))
    console.print()
    console.print(_drawn(figures))
    for check in outcome.checks:
        console.print(f"[green]checked:[/] {check}")
    console.print(f"Report: {page}, plot: {target / 'plot.svg'}")


def _run(console: Console, folder: Path, minutes: int) -> Outcome:
    seen: dict[str, int] = {}
    with Progress(
        TextColumn("{task.description}"), BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn(), console=console,
        disable=not console.is_terminal, transient=True,
    ) as progress:  # fmt: skip
        sending = progress.add_task("measurements sent", total=None)
        sent, started = 0, time.perf_counter()

        def show_sent(count: int) -> None:
            nonlocal sent
            progress.advance(sending, count)
            if (sent + count) // SHOWN_EVERY > sent // SHOWN_EVERY:
                rate = (sent + count) / (time.perf_counter() - started)
                console.print(f"    {sent + count:,} measurements sent, {rate:,.0f}/s", highlight=False)
            sent += count

        def show(tallies: list[Tally]) -> None:
            for tally in tallies:
                if tally.batches > seen.get(tally.query, 0):
                    seen[tally.query] = tally.batches
                    console.print(f"    {line(tally)}", highlight=False, soft_wrap=True)

        callbacks = Callbacks(
            lambda step: console.print(f"... {step}", highlight=False),
            show_sent,
            show,
        )
        return run(folder, minutes, callbacks)


def _figures(outcome: Outcome) -> list[list[str]]:
    rows = [
        ["what", "seen"],
        ["sent over HTTP, under idempotency keys", str(outcome.by_http)],
        ["sent through librdkafka", str(outcome.by_kafka)],
        ["pipeline, Spark's start included", f"{outcome.pipeline_s:,.1f} s"],
    ]
    rows += [
        [
            tally.query,
            f"{tally.rows:,} rows in {tally.seconds:,.1f} s, {tally.rows / max(tally.seconds, 0.001):,.0f} rows/s",
        ]
        for tally in outcome.tallies
    ]
    rows.append(["windows of 1 m, 5 m, 1 h", f"{len(outcome.rollups):,}"])
    return rows


def _drawn(cells: list[list[str]]) -> Table:
    head, *rows = cells
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, heading in enumerate(head):
        table.add_column(heading, justify="left" if number == 0 or len(head) == 2 else "right")
    for row in rows:
        table.add_row(*row)
    return table

"""Runs the demonstration and prints its results: `python -m demo [--records N] [--stay]`."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from demo import broker, chapters, edge
from demo.claims import claim
from demo.console import show_console
from demo.metrics import Totals
from demo.spark_chapter import show_pipeline
from qanat.model.errors import QanatError
from qanat.wire.record_reader import is_compiled

RECORDS = 200_000
BROKER_RECORDS = 100_000
FLEET_MINUTES = 90
REPORT = Path("build") / "demo"


def main() -> int:
    """Exit code 0 if every claim held."""
    parser = argparse.ArgumentParser(prog="make demo", description="Qanat at work.")
    parser.add_argument("--records", type=int, default=RECORDS, help="measurements to append (default: %(default)s)")
    parser.add_argument(
        "--minutes", type=int, default=FLEET_MINUTES, help="minutes that the fleet measures (default: %(default)s)"
    )
    parser.add_argument("--report", type=Path, default=REPORT, help="folder of the report (default: %(default)s)")
    parser.add_argument("--stay", action="store_true", help="serve the web console at the end, until Ctrl-C")
    arguments = parser.parse_args()
    if arguments.minutes < 1:
        parser.error("--minutes must be at least 1")
    if arguments.records < chapters.BATCH_RECORDS:
        parser.error(f"--records must be at least {chapters.BATCH_RECORDS}")
    console = Console(width=None if sys.stdout.isatty() else 110)
    try:
        with tempfile.TemporaryDirectory(prefix="qanat-demo-", dir=".") as folder:
            console.print("[bold]Qanat at work[/]: a broker, the data pipeline on Spark, and the log underneath.\n")
            show_pipeline(console, Path(folder).absolute() / "pipeline", arguments.minutes, arguments.report)
            _show_queue(console, Path(folder), arguments.records)
            pipeline, queue = (Path(folder).absolute() / name / "broker" for name in ("pipeline", "."))
            data = pipeline if pipeline.exists() else queue
            show_console(console, data, arguments.report, is_staying=arguments.stay)
    except QanatError as fault:
        console.print(f"[bold red]The demonstration failed:[/] {fault}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _show_queue(console: Console, folder: Path, records: int) -> None:
    console.print("\n[bold]The queue[/]: one broker with librdkafka as its client, then its partition log directly.")
    table = Table("what", "seen", "checked", box=None, pad_edge=False, header_style="bold")
    with Progress(
        TextColumn("{task.description:<34}"), BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn(), console=console,
        disable=not console.is_terminal,
    ) as progress:  # fmt: skip
        _broker_chapter(table, progress, folder / "broker")
        _metrics_chapter(table, progress, folder / "metrics", records)
        _crash_chapter(table, progress, folder / "killed")
        _compaction_chapter(table, progress, folder / "compacted")
        _edge_chapter(table, progress)
    console.print(table)
    console.print("\n[bold green]Every claim above was checked.[/] Next: make test, make bench, qanat pipeline --help")


def _begin(progress: Progress, what: str, total: int | None) -> TaskID:
    """Announce a step: as a bar on a terminal, as a line elsewhere."""
    if progress.disable:
        progress.console.print(f"... {what}")
    return progress.add_task(what, total=total)


def _broker_chapter(table: Table, progress: Progress, folder: Path) -> None:
    sending = _begin(progress, "librdkafka produces, acks=all", BROKER_RECORDS)
    reading = progress.add_task("broker killed with -9; consuming", total=BROKER_RECORDS)
    sent, read = broker.serve_and_survive(
        folder,
        BROKER_RECORDS,
        lambda count: progress.advance(sending, count),
        lambda count: progress.advance(reading, count),
    )
    table.add_row(
        "broker: produce by librdkafka", f"{sent:,.0f} records/s from Python", "each acknowledged after fdatasync"
    )
    table.add_row(
        "killed with -9, started, consumed", f"{read:,.0f} records/s in a group", "every acknowledged record, once"
    )


def _metrics_chapter(table: Table, progress: Progress, folder: Path, records: int) -> None:
    sent = Totals()
    making = _begin(progress, "making measurements", records)
    batches = chapters.make_batches(records, sent, lambda count: progress.advance(making, count))
    size = sum(map(len, batches))
    writing = _begin(progress, "appending, every batch fsynced", records)
    seconds = asyncio.run(chapters.ingest(folder, batches, lambda count: progress.advance(writing, count)))
    table.add_row(
        "append to 4 partitions, lz4",
        f"{records / seconds:,.0f} records/s, {size / seconds / 1e6:,.0f} MB/s compressed",
        "each batch acknowledged after fdatasync",
    )
    reading = _begin(progress, "reading back as columns", records)
    found, opened, elapsed = asyncio.run(chapters.read_back(folder, lambda count: progress.advance(reading, count)))
    claim(sent.agrees_with(found), "the records read add up to the records sent, host by host")
    core = "compiled" if is_compiled() else "interpreted"
    table.add_row("clean start", f"{opened * 1000:.1f} ms", "by the catalogue, nothing scanned")
    table.add_row(
        "read back as columns", f"{records / elapsed:,.0f} records/s ({core} core)", "count, sum and max per host agree"
    )


def _crash_chapter(table: Table, progress: Progress, folder: Path) -> None:
    _begin(progress, "killing a writer, recovering", None)
    acknowledged, found, elapsed = chapters.die_and_recover(folder, seconds=2.0)
    table.add_row(
        "writer killed with -9, reopened",
        f"{acknowledged:,} acknowledged, {found:,} found, recovered in {elapsed * 1000:.0f} ms",
        "no acknowledged record is missing",
    )


def _edge_chapter(table: Table, progress: Progress) -> None:
    _begin(progress, "five prices to the edge", None)
    steps, seconds = edge.accept()
    table.add_row(
        "registry, broker, consumer app", f"five prices in {seconds:.1f} s", f"pushed, kept, queried; {steps[-1]}"
    )


def _compaction_chapter(table: Table, progress: Progress, folder: Path) -> None:
    _begin(progress, "compacting", None)
    started = time.perf_counter()
    before, after, kept = asyncio.run(chapters.compact(folder))
    table.add_row(
        "compaction of 60,000 updates",
        f"{before / 1e6:.1f} MB became {after / 1e3:.1f} KB in {time.perf_counter() - started:.1f} s",
        f"{kept} hosts, the latest value of each",
    )


if __name__ == "__main__":
    sys.exit(main())

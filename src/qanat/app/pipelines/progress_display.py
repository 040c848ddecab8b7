"""Progress of a pipeline in the terminal: a live table, or a line per micro-batch without a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from qanat.model.pipeline_runs import QueryState
from qanat.spark.pipelines.progress import Tally
from qanat.telemetry.pipeline_families import has_watermark

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table


class ProgressDisplay(Protocol):
    """Shows messages and progress."""

    def print_message(self, text: str) -> None:
        """Show a message."""

    def show(self, tallies: list[Tally], *, is_stopping: bool = False) -> None:
        """Show the progress of every query."""


@contextmanager
def progress_display(pipeline: str) -> Iterator[ProgressDisplay]:
    """The display that suits standard error: a table on a terminal, lines elsewhere."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield LineDisplay(pipeline)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=4) as live:
        yield TableDisplay(pipeline, live)


class LineDisplay:
    """A line whenever a micro-batch is done."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self._seen: dict[str, int] = {}

    def print_message(self, text: str) -> None:
        print(f"{self._pipeline}: {text}", file=sys.stderr, flush=True)

    def show(self, tallies: list[Tally], *, is_stopping: bool = False) -> None:
        for tally in tallies:
            # A query that started again, with another Java, counts from the beginning.
            if tally.batches not in (0, self._seen.get(tally.query, 0)):
                self._seen[tally.query] = tally.batches
                print(line(tally), file=sys.stderr, flush=True)


class TableDisplay:
    """A table of all queries."""

    def __init__(self, pipeline: str, live: Live) -> None:
        self._pipeline = pipeline
        self._live = live

    def print_message(self, text: str) -> None:
        self._live.update(f"{self._pipeline}: {text} ...")

    def show(self, tallies: list[Tally], *, is_stopping: bool = False) -> None:
        self._live.update(table(tallies, "finishing the micro-batch ..." if is_stopping else "Ctrl-C stops"))


def line(tally: Tally) -> str:
    """A query in one line."""
    parts = [f"{tally.rows:,} rows", f"{tally.rows_per_second:,.0f} rows/s"]
    if tally.lag is not None:
        parts.append(f"lag {tally.lag:,}")
    if has_watermark(tally.watermark):
        parts.append(f"watermark {tally.watermark}")
    if tally.state_rows:
        parts.append(f"state {tally.state_rows:,} rows, {size(tally.state_bytes)}")
    if tally.duplicates:
        parts.append(f"{tally.duplicates:,} duplicates")
    if tally.late:
        parts.append(f"{tally.late:,} late")
    return f"{tally.query}: batch {tally.batches}, " + ", ".join(parts)


def table(tallies: list[Tally], caption: str = "") -> Table:
    """All queries as a table of rich."""
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, header_style="bold", caption=caption, caption_justify="left")
    drawn.add_column("query")
    for heading in ("batches", "rows", "rows/s", "lag", "watermark", "state", "duplicates", "late"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for one in tallies:
        drawn.add_row(
            one.query,
            f"{one.batches:,}",
            f"{one.rows:,}",
            f"{one.rows_per_second:,.0f}",
            "-" if one.lag is None else f"{one.lag:,}",
            (one.watermark or "-")[:19] if has_watermark(one.watermark) else "-",
            f"{one.state_rows:,} rows, {size(one.state_bytes)}" if one.state_rows else "-",
            f"{one.duplicates:,}",
            f"{one.late:,}",
        )
    return drawn


def watermark_of(query: QueryState) -> str | None:
    """The watermark of a query, if it has one."""
    return query.watermark if has_watermark(query.watermark) else None


def size(count: int) -> str:
    """
    >>> size(500), size(12_300), size(4_500_000)
    ('500 B', '12 KB', '4.5 MB')
    """
    if count < 1000:
        return f"{count} B"
    return f"{count / 1000:,.0f} KB" if count < 1_000_000 else f"{count / 1e6:,.1f} MB"

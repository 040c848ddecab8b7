"""What was found: for a person at a terminal, for a program, and for a page.

Megabytes are millions of bytes, of values alone; latencies are milliseconds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qanat.app.bench import machine
from qanat.app.bench.broker.crew import Findings
from qanat.app.bench.broker.latencies import Latencies
from qanat.app.bench.broker.local import Usage
from qanat.app.bench.broker.options import Report
from qanat.app.bench.broker.properties import Clients
from qanat.app.terminal.plot import Points, Ticks, numbers
from qanat.app.terminal.standard_streams import complain

if TYPE_CHECKING:
    from collections.abc import Iterator

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
_PIPED_WIDTH = 240
_GAP = 2
_KEPT_PACE = 0.95
_LEAST_STEP_S = 0.2
"""A rate over less says nothing; a run that is shorter has one."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table, as text."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def fitting(self, width: int) -> Sheet:
        """The same, or lying on its side where it is too wide."""
        columns = list(zip(self.headings, *self.rows, strict=True))
        needed = sum(max(map(len, column)) for column in columns) + _GAP * (len(columns) - 1)
        if needed <= width or not self.rows:
            return self
        return Sheet(columns[0], columns[1:])


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines by their name."""

    title: str
    lines: Mapping[str, Points]
    axis: str
    ticks: Callable[[float, float], Ticks] = numbers


@dataclass(slots=True)
class Result:
    """One run of one command."""

    bench: str
    figures: dict[str, Any]
    sheets: list[Sheet]
    plots: list[Plot] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """What makes it a failure, each a sentence."""
    was_interrupted: bool = False


def show(result: Result, report: Report) -> int:
    """Print it, write the page, complain; the exit code."""
    about = machine.describe_client()
    if report.is_json:
        print(as_json(result, about))
    else:
        _print_tables(result)
    if report.html is not None:
        from qanat.app.bench.broker.page import as_html

        report.html.write_text(as_html(result, about), encoding="utf-8")
    for sentence in result.complaints:
        complain(sentence)
    if result.was_interrupted:
        complain("interrupted: these are the results so far")
        return EXIT_INTERRUPTED
    return EXIT_FAILED if result.complaints else 0


def as_json(result: Result, about: Mapping[str, str]) -> str:
    document = {
        "bench": result.bench,
        "interrupted": result.was_interrupted,
        **result.figures,
        "settings": result.settings,
        "machine": dict(about),
        "notes": result.notes,
        "complaints": result.complaints,
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _print_tables(result: Result) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=_PIPED_WIDTH)
    for sheet in (sheet.fitting(console.width) for sheet in result.sheets):
        table = Table(box=None, pad_edge=False, header_style="bold")
        for number, heading in enumerate(sheet.headings):
            table.add_column(heading, justify="right" if number else "left", no_wrap=True)
        for row in sheet.rows:
            table.add_row(*map(Text, row))
        console.print(table)
    for note in result.notes:
        console.print(Text(f"Note: {note}"))


# The parts that several commands have in common


def throughput(findings: Findings) -> dict[str, Any]:
    """Records, bytes, seconds and rates, for programs."""
    seconds = findings.seconds
    errors = findings.errors
    return {
        "records": findings.records,
        "bytes": findings.size_bytes,
        "seconds": round(seconds, 6),
        "records_per_s": round(findings.records / seconds, 3) if seconds else 0.0,
        "mb_per_s": round(findings.size_bytes / seconds / 1e6, 6) if seconds else 0.0,
        "errors": errors.total(),
        "error_reasons": dict(errors),
    }


def throughput_rows(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        ("records", f"{figures['records']:,}"),
        ("seconds", f"{figures['seconds']:,.3f}"),
        ("records/s", f"{figures['records_per_s']:,.0f}"),
        ("MB/s", f"{figures['mb_per_s']:,.2f}"),
    ]


def latency_rows(what: str, summary: Mapping[str, float]) -> list[tuple[str, str]]:
    return [(f"{what} {name}", milliseconds(value)) for name, value in summary.items()]


def error_rows(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    reasons = [(f"  {reason}", f"{count:,}") for reason, count in figures["error_reasons"].items()]
    return [("errors", f"{figures['errors']:,}"), *reasons]


def milliseconds(value: float) -> str:
    """
    >>> milliseconds(0.4123), milliseconds(12.345), milliseconds(1234.5)
    ('0.412 ms', '12.3 ms', '1,234 ms')
    """
    digits = 3 if value < 10 else 1 if value < 1000 else 0
    return f"{value:,.{digits}f} ms"


def used_figures(used: Usage | None, records: int) -> dict[str, Any]:
    """What the brokers took, where they are on this machine."""
    if used is None:
        return {}
    per_million = round(used.cpu_s / records * 1e6, 3) if records else None
    return {
        "broker": {
            "cpu_s": round(used.cpu_s, 4),
            "cpu_s_per_million_records": per_million,
            "resident_bytes": used.resident_bytes,
        }
    }


def used_rows(used: Usage | None) -> list[tuple[str, str]]:
    if used is None:
        return []
    return [
        ("broker CPU time", f"{used.cpu_s:,.3f} s"),
        ("broker memory", f"{used.resident_bytes / 1e6:,.0f} MB"),
    ]


def lag_notes(findings: Findings, rate: float) -> list[str]:
    """What a reader of latencies must know: clients that could not keep the pace wait for themselves."""
    reached = findings.records / findings.seconds if findings.seconds else 0.0
    if not rate or findings.was_interrupted or findings.records < 2 or reached >= _KEPT_PACE * rate:
        return []
    told = f"{reached:,.0f} of {rate:,.0f} records/s were reached"
    return [f"{told}: latencies count the waiting for clients or broker that could not keep the pace"]


def rate_plot(title: str, lines: Mapping[str, Sequence[tuple[float, int]]]) -> list[Plot]:
    """Records a second over time, out of how many there were until when."""
    rates = {name: _rates(timeline) for name, timeline in lines.items()}
    rates = {name: points for name, points in rates.items() if points}
    return [Plot(title, rates, "seconds since the start")] if rates else []


def _rates(timeline: Sequence[tuple[float, int]]) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    before_s, before = 0.0, 0
    for moment_s, count in timeline:
        is_last = (moment_s, count) == timeline[-1]
        if moment_s - before_s >= _LEAST_STEP_S or (is_last and not points and moment_s > before_s):
            points.append((moment_s, (count - before) / (moment_s - before_s)))
            before_s, before = moment_s, count
    return points


def latency_plot(title: str, lines: Mapping[str, Latencies]) -> list[Plot]:
    """Latency by percentile, with as much room for 99 to 99.9 as for 90 to 99."""
    from math import log10

    curves = {
        name: [(-log10(1 - share / 100), value) for share, value in latencies.curve()]
        for name, latencies in lines.items()
    }
    curves = {name: points for name, points in curves.items() if points}
    return [Plot(f"{title} (ms)", curves, "percentile", _percentiles)] if curves else []


def _percentiles(first: float, last: float) -> Ticks:
    names = ("0", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %")
    return [(float(place), name) for place, name in enumerate(names) if first <= place <= last]


def settings_of(clients: Clients, more: Mapping[str, object]) -> dict[str, str]:
    """What was measured how, for reports: options first, then what the clients were told."""
    said = {name: str(value) for name, value in more.items() if value is not None}
    from confluent_kafka import libversion, version

    return {**said, "client": f"confluent-kafka {version()}, librdkafka {libversion()[0]}", **clients.shown()}


@contextmanager
def told_load(what: str, records: int | None, seconds: float | None) -> Iterator[Callable[[int, float], None]]:
    """A bar on a terminal, by records or by time; it is told records and seconds."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda done, passed: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn(what),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[done]:,} records, {task.fields[rate]:,.0f}/s"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=records if records is not None else seconds, done=0, rate=0.0)

        def tell(done: int, passed: float) -> None:
            completed = done if records is not None else passed
            progress.update(task, completed=completed, done=done, rate=done / passed if passed else 0.0)

        yield tell

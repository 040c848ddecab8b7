"""The result of a bench run: figures, tables and plots, and the parts that several commands share.

Megabytes are millions of bytes, of values alone; latencies are milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qanat.app.bench.clients.broker_usage import Usage
from qanat.app.bench.clients.latencies import Latencies
from qanat.app.bench.clients.librdkafka_properties import Clients
from qanat.app.bench.clients.worker_pool import Findings
from qanat.app.terminal.plot import Points, Ticks, numbers

_GAP = 2
_KEPT_PACE = 0.95
_LEAST_STEP_S = 0.2
"""A rate over a shorter time means nothing; a shorter run has one rate."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table of text."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def fitting(self, width: int) -> Sheet:
        """The same, transposed where it is too wide."""
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
    """Reasons why the run failed, each a sentence."""
    was_interrupted: bool = False


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
    """Usage of the brokers, where they run on this machine."""
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
    """A note where the rate was not reached: latencies then include the wait for slow clients."""
    reached = findings.records / findings.seconds if findings.seconds else 0.0
    if not rate or findings.was_interrupted or findings.records < 2 or reached >= _KEPT_PACE * rate:
        return []
    reason = f"{reached:,.0f} of {rate:,.0f} records/s were reached"
    return [f"{reason}: latencies include the wait for clients or broker that could not keep up"]


def rate_plot(title: str, lines: Mapping[str, Sequence[tuple[float, int]]]) -> list[Plot]:
    """Records a second over time, from cumulative counts."""
    rates = {name: _rates(timeline) for name, timeline in lines.items()}
    rates = {name: points for name, points in rates.items() if points}
    return [Plot(title, rates, "seconds since the start")] if rates else []


def _rates(timeline: Sequence[tuple[float, int]]) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    before_s, before = 0.0, 0
    for elapsed_s, count in timeline:
        is_last = (elapsed_s, count) == timeline[-1]
        if elapsed_s - before_s >= _LEAST_STEP_S or (is_last and not points and elapsed_s > before_s):
            points.append((elapsed_s, (count - before) / (elapsed_s - before_s)))
            before_s, before = elapsed_s, count
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
    """Settings of the run, for reports: options first, then the clients' properties."""
    shown_settings = {name: str(value) for name, value in more.items() if value is not None}
    from confluent_kafka import libversion, version

    return {**shown_settings, "client": f"confluent-kafka {version()}, librdkafka {libversion()[0]}", **clients.shown()}

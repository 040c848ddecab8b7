"""The demonstration's report: one self-contained HTML file, and the plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from time import gmtime, strftime

from demo.fleet import Spot
from demo.rollups import Rollup
from qanat.app.terminal.plot import line_chart, numbers

PLOTTED = ("http.latency_ms", "web-03")
_STYLE = """
body { font: 15px/1.5 sans-serif; color: #111827; max-width: 960px; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0 } th, td { padding: .25em .8em; text-align: right }
th { border-bottom: 1px solid #9ca3af } td:first-child, th:first-child { text-align: left }
tr:nth-child(even) td { background: #f9fafb } .good { color: #047857 }
"""

Cells = Sequence[Sequence[str]]


def plot(rollups: Mapping[Spot, Rollup]) -> str:
    """The latency of requests on one server, by the minute."""
    metric, source = PLOTTED
    rows = sorted(
        (spot.start_ms / 1000, rollup)
        for spot, rollup in rollups.items()
        if (spot.metric, spot.source, spot.window) == (metric, source, "1m")
    )
    lines = {name: [(at, float(getattr(rollup, name))) for at, rollup in rows] for name in ("p50", "p95", "p99")}
    return line_chart(f"{metric} of {source}, minute by minute (UTC)", lines)


def hourly(rollups: Mapping[Spot, Rollup]) -> list[list[str]]:
    """The hours of every metric of one server, as cells, with headings."""
    rows = sorted(item for item in rollups.items() if item[0].window == "1h" and item[0].source == PLOTTED[1])
    head = ["metric", "source", "hour", "count", "mean", "min", "p50", "p95", "p99", "max"]
    cells = [
        [spot.metric, spot.source, strftime("%H:%M", gmtime(spot.start_ms / 1000)), f"{rollup.count:,}"]
        + [f"{value:,.4g}" if abs(value) < 1e6 else f"{value / 1e6:,.1f}M" for value in _shown(rollup)]
        for spot, rollup in rows
    ]
    return [head, *cells]


def _shown(rollup: Rollup) -> list[float]:
    return [rollup.mean, rollup.min, rollup.p50, rollup.p95, rollup.p99, rollup.max]


def write(
    folder: Path,
    rollups: Mapping[Spot, Rollup],
    figures: Cells,
    checks: Sequence[str],
    rates: Sequence[tuple[float, float]],
) -> Path:
    """Write the plot and the page; returns the page."""
    folder.mkdir(parents=True, exist_ok=True)
    drawing = plot(rollups)
    (folder / "plot.svg").write_text(drawing, encoding="utf-8")
    page = folder / "report.html"
    body = (
        f"<h1>Qanat at work</h1>{_table(figures)}<h2>Checked</h2><ul>"
        + "".join(f'<li class="good">{escape(check)}</li>' for check in checks)
        + f"</ul><h2>The pipeline's rate</h2>{_rate(rates)}<h2>Latency</h2>{drawing}"
        + f"<h2>Hours of {escape(PLOTTED[1])}</h2>{_table(hourly(rollups))}"
    )
    page.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Qanat at work</title><style>{_STYLE}</style>'
        f"<body>{body}</body></html>\n",
        encoding="utf-8",
    )
    return page


def _rate(rates: Sequence[tuple[float, float]]) -> str:
    """Measurements a second of each micro-batch, over the seconds since the pipeline's start."""
    return line_chart("measurements a second, by micro-batch", {"rows/s": rates}, numbers, "seconds")


def _table(rows: Cells) -> str:
    head, *body = rows
    lines = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in body]
    return f"<table>{''.join(lines)}</table>"

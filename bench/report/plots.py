"""Plots of the figures: lines as the demo draws them, and bars for ratios."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from bench.report import costs
from bench.report.headline import Judged
from bench.report.part_results import PartResult
from qanat.app.terminal.plot import Points, Ticks, line_chart

_BAR, _LEFT, _WIDTH, _RIGHT = 22, 330, 900, 70
_COLOURS = {"goal met": "#059669", "floor met": "#2563eb", "NOT met": "#dc2626", "inconclusive": "#d97706"}
_LARGEST = 8.0
_FEWEST = 2
SUMMARY = "summary.svg"
"""The plot of the page for users."""


def drawn(
    kept: Mapping[str, PartResult], judged: Sequence[Judged], summary: Sequence[Judged] = ()
) -> dict[str, tuple[str, str]]:
    """The title and the SVG of each plot, by file name; only plots for which there are figures."""
    found: dict[str, tuple[str, str]] = {}
    for name, shown in (("ratios.svg", judged), (SUMMARY, summary)):
        measured = [one for one in shown if one.row is not None and one.row.ratio]
        if measured:
            found[name] = ("How many times better than Apache Kafka", ratio_bars(measured))
    broker = kept.get("broker")
    for mode in ("produce", "consume") if broker else ():
        assert broker is not None
        lines = costs.by_size(broker, mode)
        if max(map(len, lines.values()), default=0) >= _FEWEST:
            title = f"{mode}: broker CPU per message by size, µs"
            found[f"cpu-{mode}.svg"] = (title, _by_size(title, lines))
        rates = _rates(broker, mode)
        if max(map(len, rates.values()), default=0) >= _FEWEST:
            title = f"{mode}: thousand messages a second by size"
            found[f"rate-{mode}.svg"] = (title, _by_size(title, rates))
    gaps = kept["failover"].found.get("series", {}).get("gaps_s", {}) if "failover" in kept else {}
    if gaps:
        title = "leader killed: longest gap between acknowledgements of each try, s"
        tries = {name: [(number, gap) for number, gap in enumerate(values, 1)] for name, values in gaps.items()}
        found["failover.svg"] = (title, line_chart(title, tries, _tries, "try"))
    return found


def ratio_bars(judged: Sequence[Judged]) -> str:
    """A bar for each line, to the right where Qanat is better; each step is twice as good."""
    height = _BAR * (len(judged) + 2)
    middle = _LEFT + (_WIDTH - _LEFT - _RIGHT) / 3

    def across(times: float) -> float:
        unit = (_WIDTH - _RIGHT - middle) / math.log2(_LARGEST * 2)
        return middle + max(-1.0, min(math.log2(times), math.log2(_LARGEST * 2))) * unit

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/><g font-family="sans-serif">',
    ]
    for times in (0.5, 1.0, 2.0, 4.0, 8.0):
        x = across(times)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_BAR}" y2="{height - 8}" stroke="#d1d5db"/>')
        parts.append(f'<text x="{x:.1f}" y="15" text-anchor="middle" fill="#6b7280">{times:g}×</text>')
    for number, one in enumerate(judged, 1):
        assert one.row is not None
        assert one.row.ratio is not None
        times = one.row.ratio if one.line.comparison == ">=" else 1 / one.row.ratio
        y, end = number * _BAR + 6, across(times)
        colour = _COLOURS[one.verdict]
        parts.append(
            f'<text x="{_LEFT - 8}" y="{y + 11}" text-anchor="end" fill="#111827">{escape(one.line.what)}</text>'
            f'<rect x="{min(middle, end):.1f}" y="{y}" width="{abs(end - middle):.1f}" height="14" fill="{colour}"/>'
            f'<text x="{max(middle, end) + 5:.1f}" y="{y + 11}" fill="{colour}">{times:.2f}×</text>'
        )
    return "".join(parts) + "</g></svg>\n"


def _rates(kept: PartResult, mode: str) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for name, size in costs.SIZES.items():
        row = kept.row(f"{mode}-{name}", "")
        if row is not None:
            found.setdefault("Qanat", []).append((size, row.ours / 1e3))
            if row.limit is not None:
                found.setdefault(row.limit_is, []).append((size, row.limit / 1e3))
    return found


def _by_size(title: str, lines: Mapping[str, Sequence[tuple[int, float]]]) -> str:
    placed: dict[str, Points] = {
        name: [(math.log10(size), value) for size, value in points] for name, points in lines.items()
    }
    return line_chart(title, placed, _sizes, "bytes of a message")


def _sizes(first: float, last: float) -> Ticks:
    return [(math.log10(size), f"{size:,}") for size in costs.SIZES.values() if first <= math.log10(size) <= last]


def _tries(first: float, last: float) -> Ticks:
    return [(float(number), str(number)) for number in range(int(first), int(last) + 1)]

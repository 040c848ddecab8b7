"""A line chart as SVG, made here: some lines of text do not justify a plotting library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from time import gmtime, strftime

WIDTH, HEIGHT = 900, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 110, 36, 34
_COLOURS = ("#2563eb", "#d97706", "#dc2626", "#059669", "#7c3aed")
_GRID_LINES = 5

Points = Sequence[tuple[float, float]]
"""Seconds since 1970, and a value."""


def line_chart(title: str, lines: Mapping[str, Points]) -> str:
    """An SVG document with one line for each name."""
    points = [point for line in lines.values() for point in line]
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    top = _GRID_LINES * round_step(max(y for _, y in points) / _GRID_LINES)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - first) / ((last - first) or 1) * (WIDTH - _LEFT - _RIGHT)
        return _LEFT + across, HEIGHT - _BOTTOM - y / top * (HEIGHT - _TOP - _BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/><g font-family="sans-serif">',
        f'<text x="{_LEFT}" y="22" font-size="15" fill="#111827">{escape(title)}</text>',
    ]
    for number in range(_GRID_LINES + 1):
        value = top * number / _GRID_LINES
        _, y = place(first, value)
        parts.append(f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e7eb"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#6b7280">{value:,.4g}</text>')
        moment = first + (last - first) * number / _GRID_LINES
        x, _ = place(moment, 0)
        label = strftime("%H:%M", gmtime(moment))
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 12}" text-anchor="middle" fill="#6b7280">{label}</text>')
    for number, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in line))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        y = _TOP + 14 + 18 * number
        parts.append(f'<text x="{WIDTH - _RIGHT + 12}" y="{y}" fill="{colour}">{escape(name)}</text>')
    return "".join(parts) + "</g></svg>\n"


def round_step(least: float) -> float:
    """The next number that people like to see on an axis.

    >>> round_step(0.13), round_step(104.0), round_step(230.0)
    (0.2, 200.0, 250.0)
    """
    power = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
    return next(nice * power for nice in (1.0, 2.0, 2.5, 5.0, 10.0) if nice * power >= least)

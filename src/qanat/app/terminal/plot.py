"""Line charts as SVG: a few lines of text do not justify a plotting library."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from time import gmtime, strftime

WIDTH, HEIGHT = 900, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 110, 36, 38
_COLOURS = ("#2563eb", "#d97706", "#dc2626", "#059669", "#7c3aed")
_GRID_LINES = 5
_FEW = 12
"""Lines of at most so many points get dots: a line through one point would be invisible."""

Points = Sequence[tuple[float, float]]
"""A place on the axis, for example seconds since 1970, and a value."""
Ticks = Sequence[tuple[float, str]]
"""A place on the axis and its label."""


def hours(first: float, last: float) -> Ticks:
    """The time of day, for seconds since 1970."""
    places = [first + (last - first) * number / _GRID_LINES for number in range(_GRID_LINES + 1)]
    return [(place_x, strftime("%H:%M", gmtime(place_x))) for place_x in places]


def numbers(first: float, last: float) -> Ticks:
    """Round numbers between two."""
    step = round_step(((last - first) or 1) / _GRID_LINES)
    begin = math.ceil(first / step)
    return [(step * number, f"{step * number:,.6g}") for number in range(begin, math.floor(last / step) + 1)]


def line_chart(
    title: str, lines: Mapping[str, Points], ticks: Callable[[float, float], Ticks] = hours, axis: str = ""
) -> str:
    """An SVG document with one line for each name; `ticks` labels the axis from its first to its last place."""
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
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#6b7280">{value:,.10g}</text>')
    for place_x, label in ticks(first, last):
        x, _ = place(place_x, 0)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 16}" text-anchor="middle" fill="#6b7280">{escape(label)}</text>')
    if axis:
        x = (_LEFT + WIDTH - _RIGHT) / 2
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 2}" text-anchor="middle" fill="#6b7280">{escape(axis)}</text>')
    for number, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in line))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        if len(line) <= _FEW:
            dots = (place(*point) for point in line)
            parts.extend(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in dots)
        y = _TOP + 14 + 18 * number
        parts.append(f'<text x="{WIDTH - _RIGHT + 12}" y="{y}" fill="{colour}">{escape(name)}</text>')
    return "".join(parts) + "</g></svg>\n"


def round_step(least: float) -> float:
    """The next round number for the steps of an axis.

    >>> round_step(0.13), round_step(104.0), round_step(230.0)
    (0.2, 200.0, 250.0)
    """
    power = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
    return next(nice * power for nice in (1.0, 2.0, 2.5, 5.0, 10.0) if nice * power >= least)

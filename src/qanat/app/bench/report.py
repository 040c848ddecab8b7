"""Figures as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from qanat.app.bench.figures import Part, Required, Row

_PIPED_WIDTH = 240
"""Wide enough that no line wraps without a terminal."""
HEADINGS = ("figure", "what", "ours", "limit", "ratio", "required", "verdict", "spread")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one run."""

    machine: Mapping[str, str]
    settings: Mapping[str, str]
    rows: Sequence[Row]
    parts: Sequence[Part]
    notes: Sequence[str]

    @property
    def missed(self) -> list[Row]:
        return [row for row in self.rows if row.verdict == "NOT met"]


def number(value: float) -> str:
    """A number with three digits, more than such a measurement is worth."""
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cells(row: Row) -> tuple[str, ...]:
    """A row as text, in the order of `HEADINGS`."""
    limit = "" if row.limit is None else f"{number(row.limit)} {row.unit} ({row.limit_is})"
    return (
        row.figure,
        row.what,
        f"{number(row.ours)} {row.unit}",
        limit,
        "" if row.ratio is None else f"{row.ratio:.2f}",
        _bounds(row),
        row.verdict if row.goal is None else f"{row.verdict}; goal {_GOAL[row.goal_verdict]}",
        f"{number(row.lowest)} to {number(row.highest)}",
    )


_GOAL = {"met": "met", "NOT met": "not met", "inconclusive": "inconclusive"}


def _bounds(row: Row) -> str:
    required = "" if row.required is None else _requirement(row.required, row.unit)
    goal = "" if row.goal is None else f"goal {_requirement(row.goal, row.unit)}"
    return "; ".join(filter(None, (required, goal)))


def _requirement(required: Required, unit: str) -> str:
    sign = "≥" if required.comparison == ">=" else "≤"
    if required.of == "ratio":
        return f"ratio {sign} {required.bound:.2f}"
    return f"{sign} {number(required.bound)} {unit}"


def as_json(result: Result) -> str:
    return json.dumps(
        {
            "machine": dict(result.machine),
            "settings": dict(result.settings),
            "figures": [
                {**asdict(row), "verdict": row.verdict, "goal_verdict": row.goal_verdict} for row in result.rows
            ],
            "append_parts_us": {part.what: part.took_us for part in result.parts},
            "notes": list(result.notes),
        },
        indent=2,
        ensure_ascii=False,
    )


def print_table(result: Result, headings: Sequence[str] = HEADINGS) -> None:
    from rich.console import Console
    from rich.table import Table

    colours = {"met": "green", "NOT met": "red", "inconclusive": "yellow", "for information": "dim"}
    console = Console()
    if not console.is_terminal:
        console.width = _PIPED_WIDTH
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading)
    for row in result.rows:
        texts = cells(row)
        table.add_row(*texts, style=colours[row.verdict] if row.verdict != "met" else None)
    console.print(table)
    if result.parts:
        console.print("\nWhere the time of one append goes:")
        for part in result.parts:
            console.print(f"  {part.took_us:6.2f} µs  {part.what}")
    for note in result.notes:
        console.print(f"Note: {note}")

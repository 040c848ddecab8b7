"""The result: figures by system, in tables, as text and as JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from qanat.app.bench.report import number

OURS = "Qanat"
_ABSENT = "–"


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of one workload: for each system its values, one for each round."""

    workload: str
    what: str
    unit: str
    values: Mapping[str, Sequence[float]]

    def ratio(self, name: str) -> float | None:
        """The ratio of ours to theirs: the median of the rounds' ratios."""
        ours, theirs = self.values.get(OURS), self.values.get(name)
        if ours is None or theirs is None or name == OURS or not all(theirs):
            return None
        return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))

    def cell(self, name: str) -> str:
        """The median, the lowest and the highest, and how many times theirs ours is."""
        values = self.values.get(name)
        if not values:
            return _ABSENT
        ratio = self.ratio(name)
        spread = f"{number(statistics.median(values))} ({number(min(values))} to {number(max(values))})"
        return spread if ratio is None else f"{spread}; {ratio:.2f}×"


@dataclass(frozen=True, slots=True)
class Table:
    """Comparable lines, and the systems that are missing, with the reason."""

    title: str
    lines: Sequence[Line]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def systems(self) -> list[str]:
        """The systems in the order of their turns."""
        return list(dict.fromkeys(name for line in self.lines for name in line.values))

    @property
    def headings(self) -> list[str]:
        return ["what", "unit", *self.systems]

    @property
    def rows(self) -> list[list[str]]:
        return [[line.what, line.unit, *(line.cell(name) for name in self.systems)] for line in self.lines]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one run."""

    machine: Mapping[str, str]
    settings: Mapping[str, str]
    tables: Sequence[Table]
    notes: Sequence[str]


def as_json(result: Result) -> str:
    return json.dumps(
        {
            "machine": dict(result.machine),
            "settings": dict(result.settings),
            "tables": [
                {
                    "title": table.title,
                    "left_out": dict(table.left_out),
                    "figures": [_figure(line, table.systems) for line in table.lines],
                }
                for table in result.tables
            ],
            "notes": list(result.notes),
        },
        indent=2,
        ensure_ascii=False,
    )


def _figure(line: Line, systems: Sequence[str]) -> dict[str, object]:
    return {
        "workload": line.workload,
        "what": line.what,
        "unit": line.unit,
        "systems": {
            name: {
                "median": statistics.median(line.values[name]),
                "lowest": min(line.values[name]),
                "highest": max(line.values[name]),
                "rounds": list(line.values[name]),
                "qanat_to_it": line.ratio(name),
            }
            for name in systems
            if line.values.get(name)
        },
    }


def as_markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(_escaped(cell) for cell in line) + " |" for line in lines) + "\n"


def _escaped(cell: str) -> str:
    """A cell is one line and has no bars."""
    return " ".join(cell.split()).replace("|", "\\|")

"""The results of a part, as one file of a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from qanat.app.bench.figures import Required, Row


@dataclass(frozen=True, slots=True)
class PartResult:
    """One part of one run."""

    part: str
    run: str
    """The start of its run, in UTC: parts with different ones were not measured together."""
    seconds: float
    is_quick: bool
    reason: str
    """Why it is not complete, or empty."""
    found: Mapping[str, Any] = field(default_factory=dict)
    """The output of its program: machine, settings, figures or tables, notes, series."""

    @property
    def rows(self) -> list[Row]:
        return [row_of(written) for written in self.found.get("figures", ())]

    @property
    def judged_output(self) -> dict[str, Any]:
        """The output of its program, with verdicts by the current rules."""
        found = dict(self.found)
        if "figures" in found:
            found["figures"] = [
                {**written, "verdict": row.verdict, "goal_verdict": row.goal_verdict}
                for written, row in zip(found["figures"], self.rows, strict=True)
            ]
        return found

    @property
    def has_figures(self) -> bool:
        return any(self.found.get(kind) for kind in ("figures", "tables", "profiles"))

    @property
    def notes(self) -> list[str]:
        return list(self.found.get("notes", ()))

    def row(self, figure: str, ending: str) -> Row | None:
        """The row of a workload whose text ends so; of several the last."""
        matching = [one for one in self.rows if one.figure == figure and _is_about(one, ending)]
        return matching[-1] if matching else None


def _is_about(row: Row, ending: str) -> bool:
    """No ending means the workload's first figure: its rate."""
    return row.what.endswith(ending) if ending else row.unit.endswith("/s")


def row_of(written: Mapping[str, Any]) -> Row:
    """A row from its JSON, without unknown fields."""
    known = {one.name for one in fields(Row)}
    values = {name: value for name, value in written.items() if name in known}
    for name in ("required", "goal"):
        if values.get(name) is not None:
            values[name] = Required(**values[name])
    return Row(**values)


def write(folder: Path, kept: PartResult) -> None:
    _file(folder, kept.part).write_text(json.dumps(asdict(kept), indent=2, ensure_ascii=False) + "\n")


def read(kept: Path, parts: Sequence[str]) -> dict[str, PartResult]:
    """Those parts that the folder has, or the JSON of a report."""
    if kept.is_file():
        found = json.loads(kept.read_text())["parts"]
        return {name: PartResult(**found[name]) for name in parts if name in found}
    return {
        name: PartResult(**json.loads(_file(kept, name).read_text())) for name in parts if _file(kept, name).exists()
    }


def _file(folder: Path, part: str) -> Path:
    return folder / f"{part}.json"


def merged(files: Sequence[Path]) -> dict[str, Any]:
    """The output of several runs of one program; of a figure that two of them have, the worse one counts.

    That is memory under load: each run has servers of its own.
    """
    whole: dict[str, Any] = {}
    figures: dict[tuple[str, str, str], Any] = {}
    for file in files:
        written = _parsed(file)
        for one in written.get("figures", ()):
            key = one["figure"], one["what"], one.get("limit_is", "")
            if key not in figures or (one.get("ratio") or 0.0) >= (figures[key].get("ratio") or 0.0):
                figures[key] = one
        notes = [*whole.get("notes", ()), *written.get("notes", ())]
        whole = {**whole, **written, "notes": list(dict.fromkeys(notes))}
    if figures:
        whole["figures"] = list(figures.values())
    return whole


def _parsed(file: Path) -> dict[str, Any]:
    """The JSON of a file; empty where the program was ended before it was complete."""
    try:
        written: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return written

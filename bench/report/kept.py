"""What a part has found, kept as one file of a folder, and read again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from qanat.app.bench.figures import Required, Row


@dataclass(frozen=True, slots=True)
class Kept:
    """One part of one run."""

    part: str
    run: str
    """When the run began to which it belongs, in UTC: parts with different ones were not measured together."""
    seconds: float
    is_quick: bool
    reason: str
    """Why it is not complete, or empty."""
    found: Mapping[str, Any] = field(default_factory=dict)
    """What its program wrote: machine, settings, figures or tables, notes, series."""

    @property
    def rows(self) -> list[Row]:
        return [row_of(told) for told in self.found.get("figures", ())]

    @property
    def has_figures(self) -> bool:
        return any(self.found.get(kind) for kind in ("figures", "tables", "profiles"))

    @property
    def notes(self) -> list[str]:
        return list(self.found.get("notes", ()))

    def row(self, figure: str, ending: str) -> Row | None:
        """The line of a workload whose words end so; of several the last."""
        matching = [one for one in self.rows if one.figure == figure and _is_about(one, ending)]
        return matching[-1] if matching else None


def _is_about(row: Row, ending: str) -> bool:
    """No ending means the workload's first figure: its rate."""
    return row.what.endswith(ending) if ending else row.unit.endswith("/s")


def row_of(told: Mapping[str, Any]) -> Row:
    """A line as it was written; what is not known of it is left out."""
    known = {one.name for one in fields(Row)}
    values = {name: value for name, value in told.items() if name in known}
    for name in ("required", "goal"):
        if values.get(name) is not None:
            values[name] = Required(**values[name])
    return Row(**values)


def write(folder: Path, kept: Kept) -> None:
    _file(folder, kept.part).write_text(json.dumps(asdict(kept), indent=2, ensure_ascii=False) + "\n")


def read(folder: Path, parts: Sequence[str]) -> dict[str, Kept]:
    """Those parts that the folder has."""
    return {name: Kept(**json.loads(_file(folder, name).read_text())) for name in parts if _file(folder, name).exists()}


def _file(folder: Path, part: str) -> Path:
    return folder / f"{part}.json"


def merged(files: Sequence[Path]) -> dict[str, Any]:
    """What several runs of one program wrote; of a figure that two of them have, the worse one's counts.

    That is memory under load: each run has servers of its own.
    """
    whole: dict[str, Any] = {}
    figures: dict[tuple[str, str, str], Any] = {}
    for file in files:
        told = _parsed(file)
        for one in told.get("figures", ()):
            key = one["figure"], one["what"], one.get("limit_is", "")
            if key not in figures or (one.get("ratio") or 0.0) >= (figures[key].get("ratio") or 0.0):
                figures[key] = one
        notes = [*whole.get("notes", ()), *told.get("notes", ())]
        whole = {**whole, **told, "notes": list(dict.fromkeys(notes))}
    if figures:
        whole["figures"] = list(figures.values())
    return whole


def _parsed(file: Path) -> dict[str, Any]:
    """Nothing, where a program was ended before it wrote or while it did."""
    try:
        told: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return told

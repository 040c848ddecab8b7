"""Rows for people and for programs: every listing of `qanat` comes out here.

`table` is for the eye, `json` one document, `jsonl` one object per line,
`csv` with a heading, `names` the first column alone. Values are plain: text, numbers, booleans or None.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from cyclopts import Parameter

Value = str | int | float | bool | None
Row = dict[str, Value]

Output = Annotated[Literal["table", "json", "jsonl", "csv", "names"], Parameter(name=["--output", "-o"])]
"""The type of a listing command's `output` parameter."""


def print_rows(rows: Iterable[Row], columns: Sequence[str], output: str) -> None:
    """Print rows with these columns; rows are consumed one by one where the form allows it."""
    match output:
        case "json":
            print(json.dumps(list(rows), indent=2))
        case "jsonl":
            for row in rows:
                print(json.dumps(row))
        case "csv":
            writer = csv.DictWriter(sys.stdout, columns)
            writer.writeheader()
            writer.writerows(rows)
        case "names":
            for row in rows:
                print(_shown(row[columns[0]]))
        case _:
            _print_table(rows, columns)


def _print_table(rows: Iterable[Row], columns: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    entries = list(rows)
    for column in columns:
        is_number = all(isinstance(row[column], int | float | None) for row in entries)
        table.add_column(column.replace("_", " "), justify="right" if is_number else "left", no_wrap=is_number)
    for row in entries:
        table.add_row(*(Text(_shown(row[column])) for column in columns))
    console = Console()
    if not console.is_terminal:
        console = Console(width=1000)
    console.print(table)


def _shown(value: Value) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return str(value)
        case float():
            return f"{value:,.2f}"
        case _:
            return value

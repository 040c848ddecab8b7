"""Listings: rows for people and for programs. Every listing of `qanat` is printed here.

`table` is for people, `json` one document, `jsonl` one object per line, `yaml` one document,
`csv` with a heading, `names` the first column alone. Values are plain: text, numbers, booleans or None.

Programs get every column and every byte; people get what fits the terminal, without control characters.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Literal

from cyclopts import Parameter

from qanat.app.terminal.printable import printable

Value = str | int | float | bool | None
Row = dict[str, Value]

Output = Annotated[Literal["table", "json", "jsonl", "yaml", "csv", "names"], Parameter(name=["--output", "-o"])]
"""The type of a listing command's `output` parameter."""

_DURATIONS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"))
_GAP = 2


def print_rows(rows: Iterable[Row], columns: Sequence[str], output: str, spare: Sequence[str] = ()) -> None:
    """Print rows with these columns; a table that is too wide drops the `spare` ones, in their order."""
    match output:
        case "json":
            print(json.dumps(list(rows), indent=2))
        case "jsonl":
            for row in rows:
                print(json.dumps(row), flush=True)
        case "yaml":
            import yaml

            print(yaml.safe_dump(list(rows), sort_keys=False, allow_unicode=True), end="")
        case "csv":
            writer = csv.DictWriter(sys.stdout, columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)
        case "names":
            shown = printable if sys.stdout.isatty() else str
            for row in rows:
                print(shown(_shown(row[columns[0]])))
        case _:
            _print_table(list(rows), columns, spare)


def print_done(rows: Sequence[Row], columns: Sequence[str], output: str, sentence: Callable[[Row], str]) -> None:
    """Print what was done: a sentence per row for people, the rows for programs."""
    if output != "table":
        print_rows(rows, columns, output)
        return
    for row in rows:
        print(printable(sentence(row)))


def _print_table(rows: Sequence[Row], columns: Sequence[str], spare: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=1000)
    cells = {column: [_cell(column, row[column]) for row in rows] for column in columns}
    kept = fitting(cells, spare, console.width)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in kept:
        is_number = all(isinstance(row[column], int | float | None) for row in rows)
        table.add_column(heading(column), justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    for index in range(len(rows)):
        table.add_row(*(Text(cells[column][index]) for column in kept))
    console.print(table)


def fitting(cells: dict[str, list[str]], spare: Sequence[str], width: int) -> list[str]:
    """The columns that fit, or all that are not spare."""
    kept = list(cells)
    for column in spare:
        needed = sum(max(map(len, (heading(one), *cells[one]))) + _GAP for one in kept) - _GAP
        if needed > width and column in kept:
            kept.remove(column)
    return kept


def heading(column: str) -> str:
    return column.removesuffix("_ms").replace("_", " ")


def _cell(column: str, value: Value) -> str:
    if column.endswith("_ms") and isinstance(value, int):
        return duration(value)
    return printable(_shown(value))


def duration(milliseconds: int) -> str:
    """
    >>> duration(500), duration(62_000), duration(90_000_000)
    ('0.5s', '1m 2s', '1d 1h')
    """
    if milliseconds < 10_000:
        return f"{milliseconds / 1000:.1f}s"
    parts: list[str] = []
    for size, letter in _DURATIONS:
        count, milliseconds = divmod(milliseconds, size)
        if count or parts:
            parts.append(f"{count}{letter}" if count else "")
    return " ".join(filter(None, parts[:2]))


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


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "record"), counted(2000, "record")
    ('1 record', '2,000 records')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

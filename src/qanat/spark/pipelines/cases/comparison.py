"""Expected rows compared with computed ones, and the difference as text. Pure.

Rule 1: the order of rows does not count, and how often a row comes does.
Rule 2: only columns that some expected row names are compared; a row that leaves one of them out expects null there.
Rule 3: numbers are compared to nine digits, times as times however they are written, text in a column that is expected
        as a mapping or list as JSON.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

Row = Mapping[str, Any]

_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?\s?(Z|[+-]\d\d:?\d\d)?")
ROWS_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Difference:
    """The rows of a table that are missing, and those that were not expected."""

    table: str
    expected_count: int
    missing: tuple[Row, ...]
    unexpected: tuple[Row, ...]
    unknown_columns: tuple[str, ...] = ()
    """Columns that are expected and that the table does not have."""
    known_columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.unknown_columns:
            names = ", ".join(self.unknown_columns)
            return f"{self.table}: there is no column {names}; there are {', '.join(self.known_columns)}"
        came = self.expected_count - len(self.missing)
        head = f"{self.table}: {came} of {self.expected_count} expected rows came"
        if self.unexpected:
            head += f", and {len(self.unexpected)} that {'is' if len(self.unexpected) == 1 else 'are'} not expected"
        return "\n".join([head, *_lines(list(self.missing), list(self.unexpected))])


def difference(
    table: str, expected: Sequence[Row], computed: Sequence[Row], columns: Sequence[str]
) -> Difference | None:
    """The difference of a table's rows; None where there is none."""
    compared = list(dict.fromkeys(name for row in expected for name in row)) or list(columns)
    unknown = tuple(name for name in compared if name not in columns)
    if unknown:
        return Difference(table, len(expected), (), (), unknown, tuple(columns))
    documents = {name for name in compared if any(isinstance(row.get(name), dict | list) for row in expected)}
    wanted = [{name: row.get(name) for name in compared} for row in expected]
    came = [{name: _parsed(row[name]) if name in documents else row[name] for name in compared} for row in computed]
    missing, unexpected = _without(wanted, came), _without(came, wanted)
    return Difference(table, len(expected), missing, unexpected) if missing or unexpected else None


def _without(rows: Sequence[Row], others: Sequence[Row]) -> tuple[Row, ...]:
    left = Counter(canonical(row) for row in others)
    found = []
    for row in rows:
        key = canonical(row)
        if left[key] > 0:
            left[key] -= 1
        else:
            found.append(row)
    return tuple(found)


def canonical(value: Any) -> Hashable:
    """A value in the form in which it is compared.

    >>> canonical(2.0) == canonical(Decimal("2.00")), canonical("2026-01-01 00:00") == canonical(datetime(2026, 1, 1))
    (True, True)
    """
    match value:
        case bool() | None:
            return ("constant", value)
        case int() | float() | Decimal():
            return _number(value)
        case datetime():
            return ("time", value if value.tzinfo is not None else value.replace(tzinfo=UTC))
        case date() | time():
            return ("date", value.isoformat())
        case str():
            return canonical(_as_time(value)) if _TIME.fullmatch(value) else value
        case bytes() | bytearray():
            return canonical(_text(bytes(value)))
        case dict():
            return ("map", frozenset((str(name), canonical(item)) for name, item in value.items()))
        case list() | tuple():
            if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
                return canonical(dict(value))
            return ("list", tuple(canonical(item) for item in value))
    return str(value)


def _number(value: float | Decimal) -> Hashable:
    if isinstance(value, int):
        return value
    if not math.isfinite(value):
        return str(float(value))
    return int(value) if value == int(value) else float(f"{value:.9g}")


def _as_time(text: str) -> datetime | str:
    try:
        return datetime.fromisoformat(text.replace(" Z", "Z").replace(" +", "+"))
    except ValueError:
        return f"no time: {text}"


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"


def _parsed(value: Any) -> Any:
    """The document in a text; the text where it is none."""
    if not isinstance(value, str | bytes | bytearray):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _lines(missing: list[Row], unexpected: list[Row]) -> list[str]:
    """A line per row, missing ones followed by the nearest one that came."""
    lines: list[str] = []
    hidden = max(len(missing), len(unexpected)) - ROWS_SHOWN_MAX
    for row in missing[:ROWS_SHOWN_MAX]:
        lines.append(f"  - {shown(row)}")
        near = max(unexpected, key=lambda other: _likeness(row, other), default=None)
        if near is None or not _likeness(row, near):
            continue
        unexpected.remove(near)
        lines.append(f"  + {shown(near)}")
        apart = [name for name in row if canonical(row[name]) != canonical(near[name])]
        lines += [f"      {name}: {shown(near[name])}, expected {shown(row[name])}" for name in apart]
    lines += [f"  + {shown(row)}" for row in unexpected[:ROWS_SHOWN_MAX]]
    return lines if hidden <= 0 else [*lines, f"  … and {hidden} more"]


def _likeness(one: Row, other: Row) -> int:
    return sum(canonical(one[name]) == canonical(other[name]) for name in one)


def shown(value: Any) -> str:
    """A value as text that YAML reads.

    >>> shown({"customer": b"bob", "placed": datetime(2026, 1, 1, 12, 0, tzinfo=UTC)})
    '{"customer": "bob", "placed": "2026-01-01T12:00:00+00:00"}'
    """
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    match value:
        case bytes() | bytearray():
            return _text(bytes(value))
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal():
            return float(value)
    return str(value)

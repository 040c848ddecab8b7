"""Columns that were dropped, or got a narrower type: what readers have relied on would be lost. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

Columns = Sequence[tuple[str, str]]
"""Names, and types as Spark writes them."""

_WIDER = {
    "tinyint": ("smallint", "int", "bigint", "float", "double", "string"),
    "smallint": ("int", "bigint", "float", "double", "string"),
    "int": ("bigint", "double", "string"),
    "bigint": ("string",),
    "float": ("double", "string"),
    "double": ("string",),
    "boolean": ("string",),
    "date": ("timestamp", "string"),
    "timestamp": ("string",),
    "void": None,
}
"""Types that hold every value of a type; None for all."""
_OTHER_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint", "real": "float"}
_COLUMN = re.compile(r"\s*(`(?:[^`]|``)+`|[\w.-]+)\s*:?\s+(.+?)\s*$", re.DOTALL)


def narrowed(before: Columns, after: Columns) -> list[str]:
    """What is lost, in words.

    >>> narrowed([("id", "bigint"), ("note", "string")], [("id", "int"), ("more", "string")])
    ['column id was bigint and is int', 'column note is gone']
    >>> narrowed([("id", "int")], [("id", "bigint"), ("more", "string")])
    []
    """
    now = dict(after)
    lost = []
    for name, kind in before:
        if name not in now:
            lost.append(f"column {name} is gone")
        elif not _holds(_plain(now[name]), _plain(kind)):
            lost.append(f"column {name} was {kind} and is {now[name]}")
    return lost


def _holds(wider: str, kind: str) -> bool:
    if wider == kind:
        return True
    known = _WIDER.get(kind, ())
    if known is None or wider in known:
        return True
    both = [re.fullmatch(r"decimal\((\d+),(\d+)\)", one) for one in (kind, wider)]
    if both[0] is not None and both[1] is not None:
        (old, old_scale), (new, new_scale) = (tuple(map(int, one.groups())) for one in both if one is not None)
        return new_scale >= old_scale and new - new_scale >= old - old_scale
    # A struct that has more fields is another type; whether it is wider, readers must know.
    return wider.startswith(("struct<", "array<", "map<")) and kind.startswith(wider.partition("<")[0])


def _plain(kind: str) -> str:
    text = re.sub(r"\s+", "", kind.lower()).removesuffix("notnull")
    return _OTHER_NAMES.get(text, text)


def columns_of(ddl: str | None) -> list[tuple[str, str]]:
    """The columns of a DDL text; none where it is a nested type or another form.

    >>> columns_of("id bigint, amount decimal(10, 2), tags array<struct<k: string, v: int>>")
    [('id', 'bigint'), ('amount', 'decimal(10, 2)'), ('tags', 'array<struct<k: string, v: int>>')]
    """
    parts, depth = [""], 0
    for sign in ddl or "":
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    found = [_COLUMN.match(part) for part in parts]
    return [(one[1].strip("`"), one[2]) for one in found if one is not None]

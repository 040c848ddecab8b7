"""The meaning of each setting or member, read from its declaration: the string under its field.

Readers of the struct and clients that request documentation see the same text.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache

from msgspec import Struct


@cache
def meanings(kind: type[Struct]) -> Mapping[str, str]:
    """The meaning of every field of a struct, by the name in its encoding; empty where its source is not available.

    A field of a base has the meaning that the base says.
    """
    names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    found: dict[str, str] = {}
    for declaring in reversed(kind.__mro__):
        if issubclass(declaring, Struct) and declaring is not Struct:
            found |= {names[field]: text for field, text in _declared(declaring) if field in names}
    return found


def _declared(kind: type[Struct]) -> Iterator[tuple[str, str]]:
    """The fields that a class declares itself, and the strings under them."""
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except OSError:
        return
    (declared,) = ast.parse(source).body
    assert isinstance(declared, ast.ClassDef)
    for field, below in zip(declared.body, declared.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            meaning = _text(below)
            if meaning is not None:
                yield field.target.id, meaning


def _text(statement: ast.stmt) -> str | None:
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return " ".join(ast.literal_eval(statement.value).split()) if is_text else None  # type: ignore[attr-defined]

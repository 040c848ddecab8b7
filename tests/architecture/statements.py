"""The statements of a source, inside functions as well: a tenth of what `ast.walk` goes through."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def statements(source: str) -> Iterator[ast.AST]:
    """All statements, in no order."""
    rest: list[ast.AST] = [ast.parse(source)]
    while rest:
        node = rest.pop()
        yield node
        for block in _BLOCKS:
            inner = getattr(node, block, ())
            if isinstance(inner, list):  # The body of a lambda or a conditional expression is none.
                rest += inner

r"""Needles: what bytes of records must contain for a condition to hold, so that most batches need no look inside.

    json.who == "ann" and json.amount > 5     ->  (ann or \u) and (who or \u) and (amount or \u)

Rule 1: needles are necessary, never sufficient: where they are missing no record meets the condition; where they are
        there the condition decides.
Rule 2: JSON may write a character as an escape. Needles in it have none of those with a short one (`"`, `/`, a
        backslash, control characters), and `\u` stands for all others.
Rule 3: text that bytes become by replacement (a backslash, U+FFFD) has no needle outside of JSON.
Rule 4: the search is bounded, however long the condition is.

`filter_expression.py` says what conditions mean, and checks them first.
"""

from __future__ import annotations

import ast
import re
from itertools import pairwise

Clause = tuple[bytes, ...]
"""One of these is there."""

CLAUSES_MAX = 4
ALTERNATIVES_MAX = 8
_ESCAPE = b"\\u"
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_AS_WRITTEN = re.compile(r'[^"\\/\x00-\x1f\ud800-\udfff]+')


class Needles:
    """The needles of a checked condition."""

    def __init__(self, tree: ast.expr) -> None:
        clauses = sorted({one for one in _for_truth(tree) if len(one) <= ALTERNATIVES_MAX}, key=_worth, reverse=True)
        self.clauses = clauses[:CLAUSES_MAX]

    def __bool__(self) -> bool:
        return bool(self.clauses)

    def may_be_in(self, content: bytes) -> bool:
        """Whether records of these bytes, which are not compressed, may meet the condition."""
        return all(any(needle in content for needle in clause) for clause in self.clauses)


def _worth(clause: Clause) -> tuple[int, Clause]:
    """Long needles are rare; the clause itself makes the order one."""
    return min(len(needle) for needle in clause if needle != _ESCAPE), clause


def _for_truth(node: ast.expr) -> list[Clause]:
    """What must be there for a term to be true."""
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            return [clause for one in values for clause in _for_truth(one)]
        case ast.BoolOp(values=values):
            return _one_of([_for_truth(one) for one in values])
        case ast.UnaryOp(op=ast.Not()):
            return []
        case ast.Compare(left=left, ops=signs, comparators=others):
            pairs = zip(signs, pairwise([left, *others]), strict=True)
            return [clause for sign, pair in pairs for clause in _for_comparison(sign, *pair)]
        case ast.Call(func=ast.Name(id="startswith" | "endswith"), args=[text, ast.Constant(value=str() as part)]):
            return [*_for_presence(text), *_for_text(text, part)]
    return _for_presence(node)


def _one_of(branches: list[list[Clause]]) -> list[Clause]:
    """The best clause of each branch, together: one branch is true."""
    if not all(branches):
        return []
    return [tuple(dict.fromkeys(needle for one in branches for needle in max(one, key=_worth)))]


def _for_comparison(sign: ast.cmpop, left: ast.expr, right: ast.expr) -> list[Clause]:
    if isinstance(sign, _ORDERS):
        return [*_for_presence(left), *_for_presence(right)]
    if isinstance(sign, ast.In):
        return _for_membership(left, right)
    for one, other in ((left, right), (right, left)):
        if _is_null(other) and isinstance(sign, ast.NotEq | ast.IsNot):
            return _for_presence(one)
        if _is_known(other) and isinstance(sign, ast.Eq | ast.Is):
            return _for_value(one, other)
    return []


def _for_value(node: ast.expr, known: ast.expr) -> list[Clause]:
    """A term is a known value, which is not null."""
    text = known.value if isinstance(known, ast.Constant) and isinstance(known.value, str) else None
    return [*_for_presence(node), *(() if text is None else _for_text(node, text))]


def _for_membership(item: ast.expr, whole: ast.expr) -> list[Clause]:
    if isinstance(whole, ast.Tuple | ast.List):
        if not whole.elts or not all(_is_known(one) for one in whole.elts):
            return []
        return _one_of([_for_value(item, one) for one in whole.elts])
    if isinstance(whole, ast.Constant):
        return _for_presence(item)
    text = item.value if isinstance(item, ast.Constant) else None
    return [*_for_presence(whole), *(_for_text(whole, text) if isinstance(text, str) else ())]


def _for_presence(node: ast.expr) -> list[Clause]:
    """What must be there for a term to be something else than null."""
    match node:
        case ast.Attribute(value=whole, attr=name):
            return [*_for_presence(whole), *_for_text(whole, name)]
        case ast.Subscript(value=whole, slice=ast.Constant(value=str() as name)):
            return [*_for_presence(whole), *_for_text(whole, name)]
        case ast.Subscript(value=whole):
            return _for_presence(whole)
        case ast.BinOp(left=left, right=right):
            return [*_for_presence(left), *_for_presence(right)]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _for_presence(operand)
        case ast.Call(args=arguments):
            return [clause for one in arguments for clause in _for_presence(one)]
    return []


def _for_text(node: ast.expr, text: str) -> list[Clause]:
    """A term, or a part of it, contains a text."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    if not isinstance(node, ast.Name):
        return []
    if node.id == "json":
        longest = max(_AS_WRITTEN.findall(text), key=len, default="")
        return [(longest.encode(), _ESCAPE)] if longest else []
    try:
        needle = b"" if "\\" in text or "\ufffd" in text else text.encode()
    except UnicodeEncodeError:
        return []
    return [(needle,)] if needle else []


def _is_null(node: ast.expr) -> bool:
    return (isinstance(node, ast.Constant) and node.value is None) or (isinstance(node, ast.Name) and node.id == "null")


def _is_known(node: ast.expr) -> bool:
    """A value that is not null, whatever the record is."""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float())):
            return True
        case ast.Constant(value=value):
            return value is not None
        case ast.Name(id=name):
            return name in ("true", "false")
    return False

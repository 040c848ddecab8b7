r"""Filter expressions: conditions on records (`--where`), in Python's syntax.

    key == "alice" and partition in (0, 3)
    json.amount > 100 and json.items[0].sku != null
    headers["trace"] != None or matches(value, "^err(or)?\b")

Names: `key`, `value` (text, or None), `headers` (by name), `json` (the value, read as JSON), `partition`, `offset`,
`timestamp` (milliseconds), `true`, `false`, `null`.
Functions: `matches(text, expression)`, `startswith(text, start)`, `endswith(text, end)`, `lower(text)`, `len(x)`,
`int(x)`, `float(x)`.
Operators: and or not, == != < <= > >=, in, is, + - * / %, brackets.

Rule 1: a field that a record lacks is None, and a comparison that is impossible is false; no record ends the reading.
Rule 2: nothing is executed: the condition is parsed, and only the names above are allowed.
Rule 3: a search asks millions of records: what can be decided when a condition is parsed is not decided per record.

`needles.py` says which batches need not be looked at.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from qanat.connection.records.needles import Needles
from qanat.connection.records.record_fields import FIELDS, Subject, read_json
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.wire.records import Record

Term = Callable[[Subject], Any]

_DEPTH_MAX = 100
_WITH_MEMBERS = ("json", "headers")
_FUNCTIONS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    "matches": (2, lambda text, expression: re.search(expression, text) is not None),
    "startswith": (2, lambda text, start: text.startswith(start)),
    "endswith": (2, lambda text, end: text.endswith(end)),
    "lower": (1, lambda text: text.lower()),
    "len": (1, len),
    "int": (1, int),
    "float": (1, float),
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, whole: item in whole,
    ast.NotIn: lambda item, whole: item not in whole,
    ast.Is: lambda left, right: left is right,
    ast.IsNot: lambda left, right: left is not right,
}
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_NOT_THERE = (TypeError, ValueError, AttributeError, KeyError, IndexError, ZeroDivisionError, OverflowError, re.error)
"""Errors of a term on a record that does not fit it."""
_NO_RECORD: Subject = (0, 0, 0, None, None, ())


class WrongConditionError(QanatError):
    """A condition that cannot be parsed, or names what is not allowed."""

    code = ErrorCode.INVALID_REQUEST


class Condition:
    """A parsed condition; raises `WrongConditionError` naming the part that is not allowed."""

    def __init__(self, text: str, name: str = "--where", *, is_bounded: bool = False) -> None:
        """`name` is what users call it; `is_bounded` refuses what may take forever: regular expressions."""
        self._text = f"{name} {text}"
        self._functions = {one: what for one, what in _FUNCTIONS.items() if not (is_bounded and one == "matches")}
        try:
            tree = ast.parse(text.strip(), mode="eval").body
            self._is_json_once = sum(isinstance(one, ast.Name) and one.id == "json" for one in ast.walk(tree)) == 1
            self._term = self._compiled(tree, _DEPTH_MAX)
            self.needles = Needles(tree)
        except (SyntaxError, ValueError, MemoryError, RecursionError) as fault:
            reason = fault.msg if isinstance(fault, SyntaxError) else "it is too deep"
            raise WrongConditionError(f"{self._text}: {reason}; write for example: json.amount > 100") from None

    def holds(self, partition: int, record: Record) -> bool:
        return self.holds_for((partition, record.offset, record.timestamp, record.key, record.value, record.headers))

    def holds_for(self, subject: Subject) -> bool:
        """The same without a record's object."""
        try:
            return bool(self._term(subject))
        except _NOT_THERE:
            return False

    def _compiled(self, node: ast.expr, depth: int) -> Term:
        if depth == 0:
            raise ValueError
        term = self._plain(node) or self._joined(node, depth - 1) or self._looked_up(node, depth - 1)
        if term is None:
            raise self._not_understood(node)
        return term

    def _plain(self, node: ast.expr) -> Term | None:
        match node:
            case ast.Constant(value=str() | int() | float() | None as constant):
                return lambda subject: constant
            case ast.Name(id="json") if self._is_json_once:
                return lambda subject: read_json(subject[4])
            case ast.Name(id=name):
                return FIELDS.get(name)
        return None

    def _joined(self, node: ast.expr, depth: int) -> Term | None:
        """A term of operators and their operands."""
        match node:
            case ast.BoolOp(op=sign, values=values):
                terms = [self._compiled(one, depth) for one in values]
                return _both(terms) if isinstance(sign, ast.And) else _either(terms)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return _negated(self._compiled(operand, depth))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                term = self._compiled(operand, depth)
                return lambda subject: -term(subject)
            case ast.Compare():
                return self._comparison(node, depth)
            case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _ARITHMETIC:
                terms = [self._compiled(one, depth) for one in (left, right)]
                return _calculated(_ARITHMETIC[type(operation)], *terms)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                terms = [self._compiled(one, depth) for one in items]
                return lambda subject: [term(subject) for term in terms]
        return None

    def _looked_up(self, node: ast.expr, depth: int) -> Term | None:
        """A member of json or headers, or a function call."""
        match node:
            case ast.Attribute(value=whole, attr=name) if _has_members(whole):
                return _named_member(self._compiled(whole, depth), name)
            case ast.Subscript(value=whole, slice=ast.Constant(value=str() as name)) if _has_members(whole):
                return _named_member(self._compiled(whole, depth), name)
            case ast.Subscript(value=whole, slice=index) if _has_members(whole):
                return _member(self._compiled(whole, depth), self._compiled(index, depth))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in self._functions:
                return self._call(name, arguments, depth)
        return None

    def _comparison(self, node: ast.Compare, depth: int) -> Term:
        terms = [self._compiled(one, depth) for one in (node.left, *node.comparators)]
        signs = [_COMPARISONS[type(sign)] for sign in node.ops]
        if len(signs) == 1:
            is_constant = isinstance(node.comparators[0], ast.Constant)
            return (_compared_to_constant if is_constant else _compared)(signs[0], *terms)

        def compared(subject: Subject) -> bool:
            values = [_quietly(term, subject) for term in terms]
            try:
                return all(sign(*pair) for sign, pair in zip(signs, pairwise(values), strict=True))
            except TypeError:
                return False

        return compared

    def _call(self, name: str, arguments: list[ast.expr], depth: int) -> Term:
        count, function = _FUNCTIONS[name]
        if len(arguments) != count:
            raise WrongConditionError(f"{self._text}: {name}() takes {count} values, not {len(arguments)}")
        if name == "matches" and isinstance(arguments[1], ast.Constant):
            self._check_expression(arguments[1].value)
        terms = [self._compiled(one, depth) for one in arguments]
        return lambda subject: function(*(term(subject) for term in terms))

    def _check_expression(self, expression: object) -> None:
        try:
            re.compile(expression if isinstance(expression, str) else "")
        except re.error as fault:
            raise WrongConditionError(f"{self._text}: {expression!r}: {fault}") from None

    def _not_understood(self, node: ast.expr) -> WrongConditionError:
        shown = ast.unparse(node)
        names = f"there are {', '.join(FIELDS)} and {', '.join(f'{name}()' for name in self._functions)}"
        if isinstance(node, ast.Attribute | ast.Subscript):
            names = "only json and headers have parts, as in json.amount or headers['trace']"
        return WrongConditionError(f"{self._text}: {shown} is not understood: {names}")


def _has_members(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return isinstance(node, ast.Name) and node.id in _WITH_MEMBERS


def _quietly(term: Term, subject: Subject) -> Any:
    try:
        return term(subject)
    except _NOT_THERE:
        return None


def _compared(sign: Callable[[Any, Any], Any], left: Term, right: Term) -> Term:
    def compared(subject: Subject) -> Any:
        try:
            return sign(_quietly(left, subject), _quietly(right, subject))
        except TypeError:
            return False

    return compared


def _compared_to_constant(sign: Callable[[Any, Any], Any], left: Term, right: Term) -> Term:
    """The commonest term of all, so it asks for nothing twice."""
    constant = right(_NO_RECORD)

    def compared(subject: Subject) -> Any:
        try:
            value = left(subject)
        except _NOT_THERE:
            value = None
        try:
            return sign(value, constant)
        except TypeError:
            return False

    return compared


def _both(terms: list[Term]) -> Term:
    def hold(subject: Subject) -> bool:
        try:
            for term in terms:
                if not term(subject):
                    return False
        except _NOT_THERE:
            return False
        return True

    return hold


def _either(terms: list[Term]) -> Term:
    def hold(subject: Subject) -> bool:
        for term in terms:
            try:
                if term(subject):
                    return True
            except _NOT_THERE:
                continue
        return False

    return hold


def _negated(term: Term) -> Term:
    return lambda subject: not _quietly(term, subject)


def _calculated(sign: Callable[[Any, Any], Any], left: Term, right: Term) -> Term:
    def calculated(subject: Subject) -> Any:
        values = left(subject), right(subject)
        if not all(isinstance(value, int | float) for value in values):
            return None
        return sign(*values)

    return calculated


def _named_member(whole: Term, name: str) -> Term:
    def member(subject: Subject) -> Any:
        found = whole(subject)
        return found.get(name) if type(found) is dict else None

    return member


def _member(whole: Term, index: Term) -> Term:
    def member(subject: Subject) -> Any:
        found = whole(subject)
        at = index(subject)
        if isinstance(found, dict):
            return found.get(at)
        return found[at] if isinstance(found, list) and isinstance(at, int) and -len(found) <= at < len(found) else None

    return member

"""The mutants of one source: replacements of a piece of its text.

Only code inside functions is mutated. Excluded is what tests should not pin down: assertions, annotations, messages of
exceptions, log events, `__repr__`, and code for type checkers only.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import NamedTuple

_BOUNDARY: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_NEGATION: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_SIGN: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
_OPPOSITE = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LEFT_ALONE = {"log_event", "assert_never"}
_SILENT_FUNCTIONS = {"__repr__", "__str__"}

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Mutation(NamedTuple):
    """One change of a source. `was` and `becomes` are the whole statement, or its head where it is a compound one."""

    module: str
    function: str
    line: int
    end_line: int
    """The last line of the statement: `line` to this is where `--line` finds it."""
    was: str
    becomes: str
    source: str
    number: int = 1
    """Counts equal changes of equal statements in one function."""

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """The identity of a mutant, which does not change when lines move."""
        return self.module, self.function, self.was, self.becomes, self.number

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.function}: {self.was}  =>  {self.becomes}"


def mutations_of(module: str, source: str) -> list[Mutation]:
    """All mutants of a source, in its order, each once."""
    found: dict[tuple[str, str, str, str, int], dict[str, Mutation]] = {}
    for one in _Finder(module, source).find():
        alike = found.setdefault(one.key, {})
        alike.setdefault(one.source, one._replace(number=len(alike) + 1))
    return sorted((one for alike in found.values() for one in alike.values()), key=lambda one: one.line)


class _Finder:
    def __init__(self, module: str, source: str) -> None:
        self._module = module
        self._source = source.encode()
        self._starts = [0]
        for line in self._source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def find(self) -> Iterator[Mutation]:
        tree = ast.parse(self._source)
        for function, name in _functions(tree, ""):
            for statement in _statements(function.body):
                for node, text in _changes(statement):
                    yield self._mutation(name, statement, node, text)

    def _mutation(self, function: str, statement: ast.stmt, node: ast.AST, text: str) -> Mutation:
        start, end = self._span(node)
        first, last = self._head(statement)
        before, after = self._source[first:start], self._source[end:last]
        return Mutation(
            self._module,
            function,
            statement.lineno,
            self._source.count(b"\n", 0, last) + 1,
            _one_line(self._source[first:last]),
            _one_line(before + text.encode() + after),
            (self._source[:start] + text.encode() + self._source[end:]).decode(),
        )

    def _span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def _head(self, statement: ast.stmt) -> tuple[int, int]:
        start, end = self._span(statement)
        body = getattr(statement, "body", None) or getattr(statement, "cases", None)
        if body:
            # A case of a match has no position of its own; its pattern has.
            first = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
            end = self._starts[first.lineno - 1] + first.col_offset
        return start, end


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[_Function, str]]:
    """Every function by its qualified name; one inside another counts as part of the outer one."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, _Function) and child.name not in _SILENT_FUNCTIONS:
            yield child, prefix + child.name


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.Assert) or (isinstance(statement, ast.If) and _is_for_types(statement.test)):
            continue
        yield statement
        for name in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, name, []))
        for part in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
            yield from _statements(part.body)


def _is_for_types(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


# Changes of one statement


def _changes(statement: ast.stmt) -> Iterator[tuple[ast.AST, str]]:
    """The replacements in a statement, without those in the statements inside it."""
    if _is_left_alone(statement):
        return
    if _can_go(statement):
        yield statement, "pass"
    if (
        isinstance(statement, ast.Return)
        and statement.value is not None
        and not isinstance(statement.value, ast.Constant)
    ):
        yield statement, "return None"
    if isinstance(statement, ast.If | ast.While):
        yield from _negated(statement.test)
    if isinstance(statement, ast.Raise | ast.ClassDef | _Function):
        return
    for name, value in ast.iter_fields(statement):
        if name not in ("body", "orelse", "finalbody", "handlers", "cases", "annotation", "targets", "target"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _inside(child)


def _can_go(statement: ast.stmt) -> bool:
    """Whether a statement can be removed without making a name unknown."""
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Assign):
        return not any(isinstance(target, ast.Name | ast.Tuple) for target in statement.targets)
    if isinstance(statement, ast.Return):
        return statement.value is None
    return isinstance(statement, ast.AugAssign | ast.Delete | ast.Raise | ast.Continue | ast.Break)


def _is_left_alone(statement: ast.stmt) -> bool:
    """Log events, and what stands where no code runs: after the last case, in a method for subclasses."""
    if isinstance(statement, ast.Raise):
        return isinstance(statement.exc, ast.Name) and statement.exc.id == "NotImplementedError"
    return isinstance(statement, ast.Expr) and _called(statement.value) in _LEFT_ALONE


def _called(node: ast.expr) -> str | None:
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None


def _inside(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """The replacements in an expression, the whole of it first."""
    if isinstance(node, ast.JoinedStr | ast.Lambda):
        return
    yield from _whole(node)
    for condition in node.ifs if isinstance(node, ast.comprehension) else []:
        yield from _negated(condition)
    for child in ast.iter_child_nodes(node):
        yield from _inside(child)


def _whole(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """The replacements of a whole expression."""
    if isinstance(node, ast.Compare):
        yield from _compared(node)
    elif isinstance(node, ast.BoolOp):
        for number, operand in enumerate(node.values):
            left = [one for index, one in enumerate(node.values) if index != number]
            yield node, _text(ast.BoolOp(node.op, left) if len(left) > 1 else left[0])
            yield from _negated(operand)
    elif isinstance(node, ast.BinOp) and type(node.op) in _SIGN:
        yield node, _text(ast.BinOp(node.left, _SIGN[type(node.op)](), node.right))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, _text(node.operand)
    elif isinstance(node, ast.IfExp):
        yield from _negated(node.test)
    elif isinstance(node, ast.Call) and (opposite := _OPPOSITE.get(_called(node) or "")):
        yield node.func, opposite
    elif isinstance(node, ast.Constant):
        yield from ((node, text) for text in _other_constants(node.value))
    elif isinstance(node, ast.ListComp | ast.DictComp | ast.SetComp):
        yield node, {ast.ListComp: "[]", ast.DictComp: "{}"}.get(type(node), "set()")


def _compared(node: ast.Compare) -> Iterator[tuple[ast.AST, str]]:
    for number, operator in enumerate(node.ops):
        for table in (_BOUNDARY, _NEGATION):
            if other := table.get(type(operator)):
                changed = copy.copy(node)
                changed.ops = [other() if index == number else one for index, one in enumerate(node.ops)]
                yield node, _text(changed)


def _negated(test: ast.expr) -> Iterator[tuple[ast.AST, str]]:
    """The opposite of a condition, where no change inside it is that already."""
    if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
        yield test, f"(not {_text(test)})"


def _other_constants(value: object) -> list[str]:
    if isinstance(value, bool):
        return [str(not value)]
    if isinstance(value, int):
        return [str(value + 1), str(value - 1)] if value > 0 else [str(value + 1)]
    return []


def _text(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"


def _one_line(source: bytes) -> str:
    return " ".join(source.decode().split())

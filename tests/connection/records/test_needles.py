"""Fast conditions beside slow ones: the same verdicts, and no needle of a record that meets a condition is missing."""

from __future__ import annotations

import ast
import json
import operator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qanat.connection.records.filter_expression import Condition
from qanat.connection.records.needles import ALTERNATIVES_MAX, CLAUSES_MAX
from qanat.connection.records.record_fields import read_json
from qanat.wire.records import Record, encode_batch, open_batch

_SIGNS: dict[type, Any] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, whole: one in whole,
    ast.NotIn: lambda one, whole: one not in whole,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_FAULTS = (TypeError, ValueError, AttributeError)
_FUNCTIONS: dict[str, Any] = {
    "startswith": str.startswith,
    "endswith": str.endswith,
    "lower": str.lower,
    "len": len,
    "int": int,
}


def slow(text: str, record: Record) -> bool:
    """What a condition says of a record of partition 0, as its page explains it, one node after the other."""
    try:
        parsed = None if record.value is None else json.loads(record.value)
    except (ValueError, RecursionError):
        parsed = None
    headers = {name: _text(content) for name, content in record.headers}
    names = {"key": _text(record.key), "value": _text(record.value), "json": parsed, "headers": headers}
    names |= {"partition": 0, "offset": record.offset, "timestamp": record.timestamp}
    return bool(_quietly(ast.parse(text, mode="eval").body, names | {"true": True, "false": False, "null": None}))


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "backslashreplace")


def _quietly(node: ast.expr, names: dict[str, Any]) -> Any:
    try:
        return _value(node, names)
    except _FAULTS:
        return None


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    match node:
        case ast.Constant(value=constant):
            return constant
        case ast.Name(id=name):
            return names[name]
        case ast.BoolOp(op=sign, values=values):
            return (all if isinstance(sign, ast.And) else any)(_quietly(one, names) for one in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _quietly(operand, names)
        case ast.Compare(left=left, ops=[sign], comparators=[right]):
            return _compared(_SIGNS[type(sign)], _quietly(left, names), _quietly(right, names))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.BinOp(left=left, right=right):
            one, other = _value(left, names), _value(right, names)
            return one + other if isinstance(one, int | float) and isinstance(other, int | float) else None
        case ast.Tuple(elts=items):
            return [_value(one, names) for one in items]
        case ast.Attribute(value=whole, attr=name):
            return _member(_value(whole, names), name)
        case ast.Subscript(value=whole, slice=index):
            return _member(_value(whole, names), _value(index, names))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _FUNCTIONS[name](*(_value(one, names) for one in arguments))
    raise AssertionError(ast.dump(node))


def _compared(sign: Any, one: Any, other: Any) -> Any:
    try:
        return sign(one, other)
    except TypeError:
        return False


def _member(found: Any, at: Any) -> Any:
    if isinstance(found, dict):
        return found.get(at)
    return found[at] if isinstance(found, list) and isinstance(at, int) and at < len(found) else None


TEXTS = st.sampled_from(["a", "ann", "é", "a/b", 'q"q', "back\\slash", "\\u0061", "x\ny", "\ufffd", "😀", ""])
VALUES = st.one_of(TEXTS, st.integers(-2, 2), st.booleans(), st.none(), st.just(1.5))
MEMBERS = st.sampled_from(["a", "ann", "é", "a/b"])
DOCUMENTS = st.recursive(
    VALUES, lambda part: st.one_of(st.lists(part, max_size=2), st.dictionaries(MEMBERS, part, max_size=3)), max_leaves=5
)
JSON = st.builds(
    lambda document, is_ascii: json.dumps(document, ensure_ascii=is_ascii).encode(), DOCUMENTS, st.booleans()
)
RAW = st.one_of(st.none(), TEXTS.map(str.encode), st.sampled_from([b"\xff", b"a\xff", b'{"a": "\\u0061nn"}', b"[NaN]"]))
RECORDS = st.builds(
    Record,
    st.integers(0, 3),
    st.integers(0, 3),
    RAW,
    st.one_of(JSON, RAW),
    st.lists(st.tuples(MEMBERS, RAW), max_size=2).map(tuple),
)
PLAIN = st.one_of(
    st.sampled_from(["key", "value", "json", "headers", "json.a", "json.a.ann", "headers.a", "offset", "true", "null"]),
    MEMBERS.map(lambda name: f"json[{name!r}]"),
    MEMBERS.map(lambda name: f"headers[{name!r}]"),
    st.sampled_from(["json[0]", "json.a[key]", "lower(key)", "len(json.a)", "int(json.a)", "json.a + json.ann"]),
)
OPERANDS = st.one_of(PLAIN, VALUES.map(repr))
SIGNS = st.sampled_from(["==", "!=", "<", ">=", "in", "not in"])
LISTS = st.lists(VALUES.map(repr), min_size=1, max_size=3).map(lambda items: f"({', '.join(items)},)")
TERMS = st.one_of(
    PLAIN,
    st.builds("{} {} {}".format, OPERANDS, SIGNS, OPERANDS),
    st.builds("{} {} {}".format, PLAIN, st.sampled_from(["is", "is not"]), st.sampled_from(["null", "true", "None"])),
    st.builds("{} in {}".format, OPERANDS, LISTS),
    st.builds("{}({}, {!r})".format, st.sampled_from(["startswith", "endswith"]), PLAIN, TEXTS),
)
CONDITIONS = st.recursive(
    TERMS,
    lambda part: st.one_of(
        st.builds("({} and {})".format, part, part),
        st.builds("({} or {})".format, part, part),
        part.map("(not {})".format),
        st.builds("({}) == ({})".format, part, part),
    ),
    max_leaves=4,
)


@given(CONDITIONS, RECORDS)
@example('json.a == "ann"', Record(0, 0, None, b'{"a": "\\u0061nn"}', ()))
@example('json.a == "ann"', Record(0, 0, None, b'{"\\u0061": "ann"}', ()))
@example('key == "\\\\xff"', Record(0, 0, b"\xff", None, ()))
@example('"\\ufffd" in headers', Record(0, 0, None, None, (("\ufffd", b"x"),)))
@example("json.a == null", Record(0, 0, None, b"{}", ()))
def test_a_condition_says_what_its_slow_reading_says_and_needs_no_more(text: str, record: Record) -> None:
    wanted = slow(text, record)
    condition = Condition(text)

    assert condition.holds(0, record) == wanted
    raw = tuple((name.encode(), content) for name, content in record.headers)
    assert condition.holds_for((0, record.offset, record.timestamp, record.key, record.value, raw)) == wanted
    if wanted:
        _, payload = open_batch(bytes(encode_batch([record])), 1 << 20)
        assert condition.needles.may_be_in(bytes(payload))


@given(st.one_of(JSON, st.binary(max_size=12), st.text(alphabet='[]{}",:0123eE.-+NaInfity \\ud8é', max_size=12)))
@example(b"1e400")
@example(b'"\\ud800"')
@example(b"\xef\xbb\xbf1")
def test_json_is_read_as_pythons_own_parser_reads_it(content: bytes | str) -> None:
    content = content if isinstance(content, bytes) else content.encode()
    try:
        wanted = json.loads(content.decode("utf-8-sig", "surrogatepass"))
    except (ValueError, RecursionError):
        wanted = None

    assert repr(read_json(content)) == repr(wanted)


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ('json.who == "ann-17"', [(b"ann-17", b"\\u"), (b"who", b"\\u")]),
        ('key == "k17" and json.amount < 0', [(b"amount", b"\\u"), (b"k17",)]),
        ('key in ("alice", "bob") or startswith(value, "x")', [(b"alice", b"bob", b"x")]),
        ("json.amount is not null", [(b"amount", b"\\u")]),
        ("'trace' in headers", [(b"trace",)]),
        ("json.a.b[0].c + 1 > 5 - json.total", [(b"total", b"\\u"), (b"c", b"\\u"), (b"b", b"\\u"), (b"a", b"\\u")]),
        ("json.amount == null or key != 'x' or not json.open", []),
        ("offset > 5", []),
    ],
)
def test_needles_are_what_must_be_there(text: str, clauses: list[tuple[bytes, ...]]) -> None:
    assert Condition(text).needles.clauses == clauses


def test_a_long_condition_asks_for_few_needles() -> None:
    many = " and ".join(f"json.member{n} == 'x{n}'" for n in range(50))
    wide = f"key in ({', '.join(repr(f'name-{n}') for n in range(50))})"

    assert len(Condition(many).needles.clauses) == CLAUSES_MAX
    assert not Condition(wide).needles
    assert len(Condition(f"key in ({', '.join(repr(f'n{n}') for n in range(ALTERNATIVES_MAX))})").needles.clauses) == 1

"""`consume --where`: conditions on records."""

from __future__ import annotations

import pytest

from qanat.connection.records.filter_expression import Condition, WrongConditionError
from qanat.wire.records import Record

ORDER = Record(7, 1000, b"alice", b'{"amount": 120, "items": [{"sku": "a"}], "open": true}', (("trace", b"x1"),))
BARE = Record(8, 2000, None, None, ())


@pytest.mark.parametrize(
    "text",
    [
        "key == 'alice'",
        "json.amount > 100 and json.amount <= 120",
        "json['amount'] - 20 == 100",
        "json.items[0].sku == 'a'",
        'json.items[-1].sku == "a"',
        "json.nothing is None and json.items[5] == null",
        "headers['trace'] == 'x1' and headers.trace != 'y'",
        "'trace' in headers and 'other' not in headers",
        "partition in (1, 3) and offset == 7",
        "timestamp >= 1000 < 2000",
        "matches(value, 'am.unt') and not matches(key, '^bob')",
        "startswith(key, 'al') and endswith(key, 'ce') and len(key) == 5",
        "lower(key) == 'alice' and int('5') + float('0.5') == 5.5",
        "json.open == true and not (json.open == false)",
        "-offset < 0 and offset % 2 == 1 and offset / 2 == 3.5 and offset * 2 == 14",
        "key == 'bob' or key == 'alice'",
        "'amount' in value",
    ],
)
def test_conditions_hold_for_what_they_describe(text: str) -> None:
    assert Condition(text).holds(3, ORDER)
    assert not Condition(f"not ({text})").holds(3, ORDER)


@pytest.mark.parametrize(
    "text",
    [
        "json.amount > 100",
        "json.amount + 1 > 0",
        "key < 5",
        "len(key) > 0",
        "matches(value, key)",
        "1 / (offset - 8) > 0",
        "int(value) == 0",
        "headers.trace == 'x1'",
        "key in value",
        "json.items[0].sku == 'a'",
        "-json.amount < 0",
    ],
)
def test_a_record_that_lacks_a_field_does_not_match(text: str) -> None:
    assert not Condition(text).holds(0, BARE)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "--where : invalid syntax; write for example: json.amount > 100"),
        ("key = 1", "--where key = 1: "),
        ("kye == 1", "kye is not understood: there are key, value, "),
        ("value.amount > 1", "value.amount is not understood: only json and headers have parts, "),
        ("__import__('os')", "__import__('os') is not understood"),
        ("json.x.__class__()", "json.x.__class__() is not understood"),
        ("[x for x in json]", "[x for x in json] is not understood"),
        ("key ** 9", "key ** 9 is not understood"),
        ("(lambda: 1)()", "is not understood"),
        ("len(key, value)", "len() takes 1 values, not 2"),
        ("matches(key, '(')", "'(': missing ), unterminated subpattern"),
        ("not " * 300 + "key", "it is too deep"),
        ("(" * 5000 + "key" + ")" * 5000, "too many nested parentheses"),
        ("key == 'a\0'", "--where key == 'a"),
    ],
)
def test_what_is_no_condition_is_one_sentence(text: str, reason: str) -> None:
    with pytest.raises(WrongConditionError) as fault:
        Condition(text)
    assert reason in str(fault.value)

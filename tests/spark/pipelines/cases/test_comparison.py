"""Expected rows compared with computed ones."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from qanat.spark.pipelines.cases.comparison import difference

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expected", "computed"),
    [
        ("2026-01-01T12:00:00Z", NOON),
        (datetime(2026, 1, 1, 12), NOON),
        ("2026-01-01 13:00+01:00", NOON),
        (2, 2.0),
        (0.3, 0.1 + 0.2),
        (12.5, Decimal("12.50")),
        ("text", b"text"),
        ({"id": 1, "tags": ["a"]}, b'{"tags": ["a"], "id": 1.0}'),
        ({"a": 1}, [("a", 1)]),
        (None, None),
        (float("nan"), float("nan")),
    ],
)
def test_values_are_compared_by_their_meaning(expected: Any, computed: Any) -> None:
    assert difference("out", [{"x": expected}], [{"x": computed, "other": 1}], ["x", "other"]) is None


@pytest.mark.parametrize(
    ("expected", "computed"),
    [
        (NOON, datetime(2026, 1, 1, 13, tzinfo=UTC)),
        (1, True),
        (1, 2),
        (9007199254740993, 9007199254740992),
        ("1", 1),
        (None, 0),
        ({"id": 1}, '{"id": 2}'),
        ({"id": 1}, "no json"),
        ([1, 2], [2, 1]),
    ],
)
def test_other_values_differ(expected: Any, computed: Any) -> None:
    assert difference("out", [{"x": expected}], [{"x": computed}], ["x"]) is not None


def test_the_order_of_rows_does_not_count_and_their_number_does() -> None:
    a, b = {"x": 1}, {"x": 2}

    assert difference("out", [a, b], [b, a], ["x"]) is None
    twice = difference("out", [a, b], [b, a, a], ["x"])
    assert twice is not None
    assert (twice.missing, twice.unexpected) == ((), (a,))
    assert difference("out", [], [], ["x"]) is None
    assert difference("out", [], [a], ["x"]) is not None


def test_a_row_that_leaves_out_a_column_expects_null() -> None:
    rows: list[dict[str, Any]] = [{"x": 1, "y": None}, {"x": 2, "y": 3}]

    assert difference("out", [{"x": 1}, {"x": 2, "y": 3}], rows, ["x", "y"]) is None
    assert difference("out", [{"x": 1}, {"x": 2}], rows, ["x", "y"]) is None
    assert difference("out", [{"x": 1, "y": 3}, {"x": 2}], rows, ["x", "y"]) is not None


def test_the_difference_shows_the_nearest_row_and_its_columns() -> None:
    expected = [{"customer": "ann", "total": 5}, {"customer": "bob", "total": 12}]
    computed = [{"customer": "ann", "total": 5}, {"customer": "cid", "total": 1}, {"customer": "bob", "total": 13}]

    assert str(difference("out", expected, computed, ["customer", "total"])) == (
        "out: 1 of 2 expected rows came, and 2 that are not expected\n"
        '  - {"customer": "bob", "total": 12}\n'
        '  + {"customer": "bob", "total": 13}\n'
        "      total: 13, expected 12\n"
        '  + {"customer": "cid", "total": 1}'
    )


def test_a_long_difference_is_cut() -> None:
    text = str(difference("out", [], [{"x": number} for number in range(50)], ["x"]))

    assert text.count("\n") == 21
    assert text.endswith("… and 30 more")


def test_a_column_that_does_not_exist_is_named() -> None:
    found = difference("out", [{"totl": 5}], [{"total": 5}], ["customer", "total"])

    assert str(found) == "out: there is no column totl; there are customer, total"

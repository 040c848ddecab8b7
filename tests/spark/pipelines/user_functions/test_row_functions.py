"""Functions of rows on Arrow batches, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from qanat.spark.pipelines.user_functions.row_functions import RowFunction, StepError

COLUMNS = pa.schema([("id", pa.int64()), ("score", pa.float64())])


def mapped(function: Callable[..., Any], *batches: list[dict[str, Any]], **options: Any) -> list[dict[str, Any]]:
    applied = RowFunction("pipeline shop, step scored", "shop:score", function, options, COLUMNS)
    given = iter([pa.RecordBatch.from_pylist(rows) for rows in batches])
    return [row for batch in applied.map_batches(given) for row in batch.to_pylist()]


def several(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for number in range(row["n"]):
        yield {"id": number}


def test_a_function_returns_a_row_no_row_or_several() -> None:
    def scored(row: dict[str, Any], factor: int) -> dict[str, Any] | None:
        return {"id": row["n"], "score": row["n"] * factor} if row["n"] else None

    rows = [[{"n": 0}, {"n": 1}], [{"n": 2}]]
    assert mapped(scored, *rows, factor=2) == [{"id": 1, "score": 2.0}, {"id": 2, "score": 4.0}]
    assert [row["id"] for row in mapped(several, *rows)] == [0, 0, 1]
    assert mapped(several) == []


RECORD = {"topic": "orders", "partition": 1, "offset": 7, "n": 3}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda row: 1 // (row["n"] - 3), r"ZeroDivisionError: integer .* \(test_row_functions.py line \d+\)$"),
        (lambda row: row["amount"], r"KeyError: 'amount' \("),
        (lambda row: {"scor": 1}, r"it returned scor, which is not in returns; did you mean score\?$"),
        (lambda row: {"score": "much"}, "it returned a score that is not double: "),
        (lambda row: 5, "it returned int: a dict, None or several dicts were expected$"),
        (lambda row: "text", "it returned str: a dict, None or several dicts were expected$"),
    ],
)
def test_an_error_names_step_and_record(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(StepError) as raised:
        mapped(function, [RECORD])

    start = "pipeline shop, step scored: shop:score failed at offset 7 of orders partition 1: "
    assert str(raised.value).startswith(start)
    assert raised.match(message)
    assert "\n" not in str(raised.value)


def test_a_record_without_an_offset_is_shown() -> None:
    with pytest.raises(StepError, match=r"shop:score failed at row {'id': 5, 'n': None}: TypeError: "):
        mapped(several, [{"id": 5, "n": None}])


def test_the_value_that_does_not_fit_is_found_among_others() -> None:
    with pytest.raises(StepError, match=r"failed at row {'n': 2}: it returned a id that is not int64"):
        mapped(lambda row: {"id": "x" if row["n"] == 2 else 1}, [{"n": 1}, {"n": 2}, {"n": 3}])

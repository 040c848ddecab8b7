"""Files of cases, and rows given in them, without Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from qanat.app.main import run
from qanat.spark.pipelines.cases.case_file import chosen, find_case_file, read_cases
from qanat.spark.pipelines.cases.given_rows import record_rows, table_rows
from qanat.spark.pipelines.document import PipelineError

GOOD = """\
settings: {input: a}
cases:
  first:
    settings: {limit: 5}
    given:
      orders:
        - {key: k, value: {id: 1}}
    expect:
      out: [{n: 1}]
  second:
    expect:
      out: []
"""


def written(folder: Path, text: str, name: str = "orders.test.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_cases_lie_beside_the_pipeline(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)

    assert find_case_file(str(tmp_path / "orders.yaml")) == find_case_file(str(path)) == path
    found = read_cases(path)
    first, second = found.cases
    assert found.pipeline == str(tmp_path / "orders.yaml")
    assert (first.settings, second.settings) == ({"input": "a", "limit": "5"}, {"input": "a"})
    assert first.given == {"orders": [{"key": "k", "value": {"id": 1}}]}
    assert (second.given, second.expect) == ({}, {"out": []})
    assert chosen(found, ["second"]) == (second,)
    with pytest.raises(PipelineError, match=r"has no case secnd; did you mean second\?"):
        chosen(found, ["secnd"])


def test_cases_may_be_json_and_name_their_pipeline(tmp_path: Path) -> None:
    path = written(tmp_path, '{"pipeline": "x.yaml", "cases": {"one": {"expect": {"out": [{"n": 1}]}}}}', "a.test.json")

    assert read_cases(path).pipeline == str(tmp_path / "x.yaml")


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ("    expect:\n      out: [{n: 1}]", "    expct: {}", r"line 8: cases.first.expct: unknown key; did you"),
        ("      out: [{n: 1}]", "      out: {n: 1}", "line 9: cases.first.expect.out: a list of rows was expected"),
        ("      out: [{n: 1}]", "      out: [1]", "line 9: cases.first.expect.out.0: a row was expected"),
        ("    expect:\n      out: []", "    given: {}", "line 10: cases.second: expect is missing"),
        ("cases:", "case:", r"line 2: case: unknown key; did you mean cases\?"),
        ("{input: a}", "{input: [a]}", "line 1: settings: names and values were expected"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, wrong: str, right: str, message: str) -> None:
    assert wrong in GOOD
    with pytest.raises(PipelineError, match=message):
        read_cases(written(tmp_path, GOOD.replace(wrong, right, 1)))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "there are no cases for orders.yaml: write them into orders.test.yaml"),
        ({"orders.test.yaml": GOOD}, "cannot read the pipeline in orders.yaml: No such file"),
        ({"orders.test.yaml": f"pipeline: mirror\n{GOOD}"}, "pipeline mirror is written in Python"),
    ],
)
def test_a_test_that_cannot_run_is_one_sentence(
    files: dict[str, str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in files.items():
        written(tmp_path, text, name)

    assert run(["pipeline", "test", "orders.yaml"]) == 1
    assert message in capsys.readouterr().err


RECORDS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def test_records_have_offsets_and_json_values() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    given: list[dict[str, Any]] = [
        {"key": "k", "value": {"id": 1, "at": noon}, "timestamp": "2026-01-01T12:00", "headers": {"a": "b"}},
        {"value": "text", "offset": 7, "partition": 2, "timestamp": 1767268800000},
        {"value": None},
    ]

    first, second, third = record_rows(given, RECORDS, "orders", "here").to_pylist()

    assert (first["key"], first["value"]) == (b"k", b'{"id": 1, "at": "2026-01-01T12:00:00Z"}')
    assert first["headers"] == [{"key": "a", "value": b"b"}]
    assert (first["topic"], first["partition"], first["offset"], first["timestamp"]) == ("orders", 0, 0, noon)
    assert (second["value"], second["partition"], second["offset"], second["timestamp"]) == (b"text", 2, 7, noon)
    assert (third["value"], third["offset"]) == (None, 2)


TYPED = pa.schema(
    [
        ("id", pa.int64()),
        ("price", pa.decimal128(10, 2)),
        ("share", pa.float64()),
        ("day", pa.date32()),
        ("tags", pa.map_(pa.string(), pa.int32())),
        ("inner", pa.struct([("names", pa.list_(pa.string()))])),
    ]
)


def test_rows_take_the_types_of_their_columns() -> None:
    row: dict[str, Any] = {"id": 1, "price": 2.5, "share": 1, "day": "2026-01-01", "tags": {"a": 1}}
    table = table_rows([{**row, "inner": {"names": ["x", 5]}}, {}], TYPED, "here")

    assert table.schema == TYPED
    assert table.to_pylist()[0]["inner"] == {"names": ["x", "5"]}
    assert set(table.to_pylist()[1].values()) == {None}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"idd": 1}, r"here, row 2: there is no column idd; did you mean id\?"),
        ({"id": "x"}, "here, row 2: id should be int64"),
        ({"day": "soon"}, "here, row 2: day should be date32"),
        ({"price": "dear"}, "here, row 2: price should be decimal"),
        ({"inner": {"name": []}}, r"here, row 2: inner should be .* there is no field name; did you mean names\?"),
    ],
)
def test_a_given_row_that_does_not_fit_is_named(row: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        table_rows([{}, row], TYPED, "here")

"""Pipelines on given rows, through a real Spark: from a file of cases, and from the fixture."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.spark.conftest import QUIET

from qanat.app.main import run
from qanat.spark.pipelines.document import PipelineError
from qanat.testing.pipelines import PipelineTests

pytestmark = QUIET

PIPELINE = """\
name: orders
settings: {least: 100}
sources:
  orders: {topic: orders, headers: true, schema: "id string, customer string, amount double, placed timestamp"}
  typed: {topic: typed, options: {valueFormat: json, valueSchema: "id bigint, tags array<string>"}}
steps:
  big:
    sql: select record.* from orders where record._broken is null and record.amount >= ${least}
  once:
    from: big
    watermark: {column: placed, delay: 10 minutes}
    distinct: [id]
  hourly:
    from: once
    windows:
      column: placed
      sizes: {1h: 1 hour}
      by: [customer]
      compute: {orders: count(*), total: sum(amount)}
  out:
    sql: select customer as key, to_json(struct(customer, total)) as value from hourly
  tags:
    sql: select value.id, explode(value.tags) as tag from typed where malformed is null
sinks:
  totals: {from: out, topic: totals}
  screen: {from: tags, console: true}
"""
CASES = """\
cases:
  orders are counted once by the hour:
    given:
      orders:
        - value: {id: a, customer: ann, amount: 150, placed: 2026-01-01T12:00:00Z}
        - value: {id: a, customer: ann, amount: 150, placed: 2026-01-01T12:00:00Z}
        - value: {id: b, customer: ann, amount: 250, placed: 2026-01-01T12:59:59Z}
        - value: {id: c, customer: bob, amount: 99, placed: 2026-01-01T12:00:00Z}
        - value: no order
    expect:
      big: [{id: a}, {id: a}, {id: b}]
      hourly:
        - {customer: ann, size: 1h, start: 2026-01-01T12:00:00Z, end: 2026-01-01T13:00:00Z, orders: 2, total: 400}
      totals: [{key: ann, value: {customer: ann, total: 400.0}}]
  a source without rows is empty:
    settings: {least: 5}
    given:
      typed: [{value: {id: 1, tags: [x, y]}}, {value: null, malformed: {reason: it is not JSON}}]
    expect:
      hourly: []
      screen: [{id: 1, tag: x}, {id: 1, tag: y}]
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    path = tmp_path / "orders.yaml"
    path.write_text(PIPELINE)
    (tmp_path / "orders.test.yaml").write_text(CASES)
    return path


@pytest.mark.long
def test_a_file_of_cases_passes_or_shows_what_differs(
    qanat_pipeline: PipelineTests, pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    qanat_pipeline.check(pipeline)
    empty = "a source without rows is empty"
    cases = pipeline.with_name("orders.test.yaml")
    cases.write_text(CASES.replace("orders: 2, total: 400", "orders: 3, total: 400"))

    assert run(["pipeline", "test", str(cases)]) == 1
    printed = capsys.readouterr().out
    assert (
        "FAILED  orders are counted once by the hour\n        hourly: 0 of 1 expected rows came, and 1 that" in printed
    )
    assert "\n              orders: 2, expected 3\n" in printed
    assert printed.endswith(f"ok      {empty}\n2 cases, 1 failed\n")
    assert run(["pipeline", "test", str(pipeline), "--case", empty]) == 0
    assert capsys.readouterr().out == f"ok      {empty}\n1 case passed\n"


def test_the_fixture_shows_which_case_of_a_file_differs(qanat_pipeline: PipelineTests, pipeline: Path) -> None:
    pipeline.with_name("orders.test.yaml").write_text("cases: {none: {expect: {screen: [{id: 1}]}}}")

    with pytest.raises(AssertionError, match=r"none: screen: 0 of 1 expected rows came\n  - {\"id\": 1}"):
        qanat_pipeline.check(pipeline)


def test_the_fixture_runs_a_pipeline_on_given_rows(qanat_pipeline: PipelineTests, pipeline: Path) -> None:
    order = {"id": "a", "customer": "ann", "amount": 7, "placed": "2026-01-01T12:00:00Z"}
    done = qanat_pipeline(pipeline, {"orders": [{"value": order}]}, least="5")

    done.expect("totals", [{"key": "ann", "value": {"customer": "ann", "total": 7}}])
    assert [row["id"] for row in done.rows("once")] == ["a"]
    with pytest.raises(AssertionError, match="totals: 0 of 0 expected rows came, and 1 that is not expected"):
        done.expect("totals", [])
    with pytest.raises(PipelineError, match=r"pipeline orders has no table and no sink totls; did you mean totals\?"):
        done.rows("totls")
    with pytest.raises(PipelineError, match=r"pipeline orders has no source oders; did you mean orders\?"):
        qanat_pipeline(pipeline, {"oders": []})
    with pytest.raises(
        PipelineError, match=r"given rows of orders, row 1: there is no column vlue; did you mean value"
    ):
        qanat_pipeline(pipeline, {"orders": [{"vlue": 1}]})

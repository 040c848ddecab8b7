"""Functions of users, found and checked without Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from qanat.app.main import run
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.user_functions.references import find_function

PIPELINE = """\
name: shop
sources: {{orders: {{topic: orders}}, others: {{topic: others}}}}
steps:
  scored: {{{step}}}
sinks: {{out: {{from: scored, console: true}}}}
"""
MODULE = """\
LIMIT = 5

def score(row, factor=1): ...
def joined(orders, others, *, kind): ...
class Scores:
    @staticmethod
    def best(frame): ...
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with modules of its own, forgotten afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    (tmp_path / "shop_functions.py").write_text(MODULE)
    (tmp_path / "shop_broken.py").write_text("x = 1\nraise ValueError('no\\ngood')\n")
    (tmp_path / "shop_needy.py").write_text("import qanat_nowhere\n")
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("shop_"):
            del sys.modules[name]


@pytest.mark.parametrize(
    "step",
    [
        'from: orders, rows: "shop_functions:score", returns: "id string"',
        'from: orders, rows: "shop_functions:score", returns: "id string", options: {factor: 2}',
        'from: [orders, others], python: "shop_functions:joined", options: {kind: left}',
        'from: orders, python: "shop_functions:Scores.best"',
    ],
)
def test_a_function_beside_the_pipeline_is_found(step: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "shop.yaml"
    path.write_text(PIPELINE.format(step=step))

    assert run(["pipeline", "check", str(path)]) == 0
    assert capsys.readouterr().out == "shop can be run: 2 sources, 1 step, 1 sink\n"


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ('from: orders, python: "shop_function:score"', "step scored: there is no module shop_function, neither in"),
        ('from: orders, python: "shop_functions:scor"', "shop_functions has no scor; did you mean score?"),
        ('from: orders, python: "shop_functions:LIMIT"', "shop_functions:LIMIT is int, not a function"),
        ('from: orders, python: "shop_broken:f"', "cannot be imported: ValueError: no good (shop_broken.py line 2)"),
        ('from: orders, python: "shop_needy:f"', "module shop_needy needs qanat_nowhere, which is not installed"),
        (
            'from: orders, python: "shop_functions:joined", options: {kind: left}',
            "shop_functions:joined is called with (orders, kind=…), but takes (orders, others, *, kind): missing",
        ),
        (
            'from: orders, rows: "shop_functions:score", returns: "id string", options: {fctor: 2}',
            "called with (row, fctor=…), but takes (row, factor=1): got an unexpected keyword argument 'fctor'",
        ),
        ('from: orders, python: "score"', "line 4: steps.scored.python: 'score' is not module:function"),
        ('from: orders, rows: "a:b"', "line 4: steps.scored: rows needs returns: the columns of its result"),
        ('from: orders, rows: "a:b", returns: "id strng"', "steps.scored.returns: strng is not a Spark type; did you"),
        ('from: orders, python: "a:b", returns: "id string"', "steps.scored.returns: it is for rows"),
        ('from: [orders, others], rows: "a:b", returns: "x int"', "steps.scored.from: rows reads one table"),
        ("from: [orders, others], distinct: [id]", "steps.scored.from: several tables are for python"),
        ('from: orders, python: "a:b", distinct: [id]', "python and rows stand alone with from"),
        ('from: orders, python: "a:b", rows: "a:b"', "python and rows stand alone with from"),
        ('sql: select 1, python: "a:b"', "sql stands alone"),
        ("from: orders, distinct: [id], options: {a: 1}", "returns and options are for python and rows"),
        ('from: [orders, othrs], python: "a:b"', "step scored: there is no table othrs; did you mean others?"),
    ],
)
def test_what_is_wrong_with_a_function_is_said_before_spark_starts(
    step: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "shop.yaml"
    path.write_text(PIPELINE.format(step=step))

    assert run(["pipeline", "check", str(path)]) == 1
    assert message in capsys.readouterr().err


def test_bundled_pipelines_are_checked_with_their_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "check", "metrics", "--set", "limit=few"]) == 1
    assert "limit is 'few'" in capsys.readouterr().err
    assert run(["pipeline", "check", "metrics"]) == 0
    assert capsys.readouterr().out == "metrics can be run\n"


def test_a_module_that_hides_the_one_beside_the_pipeline_is_named(folder: Path) -> None:
    (folder / "json.py").write_text("def dumps(frame): ...\n")

    with pytest.raises(PipelineError, match=r"json in .* is hidden by the module json of .*__init__.py: rename it"):
        find_function("json:dumps", str(folder), "here")
    assert find_function("textwrap:dedent", str(folder), "here").__name__ == "dedent"

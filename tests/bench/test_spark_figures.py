"""Every figure of Spark in one run: each row has its bar, and a missed one is the exit code."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest
from bench.spark import __main__ as workloads
from bench.spark import every, pipelines, remote_ingest
from bench.spark.sides import EngineFailedError

from qanat.app.bench.figures import Limit, Required, row
from qanat.app.bench.report import Result


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """Parts that answer at once, and what they were asked for."""
    asked: list[tuple[object, ...]] = []

    def compared(given: Namespace) -> Result:
        asked.append((given.records, given.elsewhere))
        bar = Required("ratio", ">=", 2.0)
        rows = [row("spark-read", "batch read", "rows/s", [5.0], Limit([2.0], "the connector"), bar)]
        return Result({"cores": "2"}, {"records": str(given.records)}, rows, [], ["no connector"])

    def few(*given: object) -> Result:
        asked.append(given)
        bar = Required("ours", "<=", 0.05)
        return Result({}, {}, [row("spark-driver", "driver's bytes", "", [0.5], None, bar)], [], [])

    monkeypatch.setattr(workloads, "measured", compared)
    monkeypatch.setattr(remote_ingest, "measured_pairs", few)
    monkeypatch.setattr(pipelines, "measured", few)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(every, "which", lambda _: "/sbin/ip")
    return asked


def test_each_part_is_in_one_table_with_bar_and_verdict(
    asked: list[tuple[object, ...]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "figures.json"

    assert every.main(["--check", "--json", str(path)]) == 1

    assert asked == [(4_000_000, False), (4_000_000, True), (5, 10_000_000), (3_000_000, 3)]
    figures = {one["figure"]: one for one in json.loads(path.read_text())["figures"]}
    assert {name: one["verdict"] for name, one in figures.items()} == {
        "here: spark-read": "met",
        "elsewhere: spark-read": "met",
        "driver: spark-driver": "NOT met",
        "pipelines: spark-driver": "NOT met",
    }
    printed = capsys.readouterr().out
    assert "elsewhere: spark-read" in printed
    assert "ratio ≥ 2.00" in printed
    assert "elsewhere: records: 4000000" in printed


def test_without_namespaces_the_rest_is_measured(
    asked: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    assert every.main(["--quick"]) == 0

    assert asked == [(400_000, False), (1_500_000, 1)]
    assert "no network namespaces" in capsys.readouterr().err


def test_a_part_that_fails_is_one_sentence_and_the_others_are_measured(
    asked: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: Namespace) -> Result:
        raise EngineFailedError("kafka: it does not start")

    monkeypatch.setattr(workloads, "measured", fails)

    assert every.main([]) == 2
    printed = capsys.readouterr()
    assert asked == [(5, 10_000_000), (3_000_000, 3)]
    assert "pipelines: spark-driver" in printed.out
    assert printed.err.splitlines() == [
        "bench.spark.every: here could not be measured: kafka: it does not start",
        "bench.spark.every: elsewhere could not be measured: kafka: it does not start",
    ]

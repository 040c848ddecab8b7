"""The comparison with Kafka, end to end with next to no load: beside the bare loop, so that Kafka is not needed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench import __main__ as command
from bench import rounds, workloads

pytestmark = pytest.mark.long

TINY = tuple(replace(one, count=200 if one.rate else 100) for one in workloads.WORKLOADS)


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "WORKLOADS", TINY)
    monkeypatch.setattr(command, "NEEDED_BYTES", 10**6)
    monkeypatch.setattr(rounds, "WARM_UP", replace(rounds.WARM_UP, count=100))
    monkeypatch.setattr(rounds, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(rounds, "PAUSE_SECONDS", 0.0)


def run(folder: Path, *arguments: str) -> int:
    return command.main(["--fresh-memory", "--without-kafka", "--dir", str(folder), *arguments])


def test_both_sides_are_driven_and_everything_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written, page, folder = tmp_path / "result.json", tmp_path / "page.md", tmp_path / "disk"
    folder.mkdir()
    chosen = "produce-100,consume-100,single,fsync-sync,start"
    arguments = ("--only", chosen, "--check", "--json", str(written), "--markdown", str(page))
    assert run(folder, *arguments) == 0, "nothing is required where Kafka is not"

    result = json.loads(written.read_text())
    assert {figure["figure"] for figure in result["figures"]} == {*chosen.split(","), "memory"}
    assert all(figure["ours"] > 0 and figure["limit"] > 0 for figure in result["figures"])
    assert {figure["verdict"] for figure in result["figures"]} == {"for information"}
    assert "Apache Kafka is not part of this run" in result["notes"][0]
    assert "| produce-100 | produce 100 B in batches |" in page.read_text()
    assert "librdkafka" in capsys.readouterr().out
    assert list(folder.iterdir()) == []


def test_the_python_client_does_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--only", "end-to-end", "--python-client") == 0

    assert "end to end at 1,000 messages/s, p99" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [(("--rounds", "4"), "take at least 5"), (("--only", "fly"), "there is no workload fly; choose among produce-100")],
)
def test_what_would_say_nothing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], reason: str
) -> None:
    assert run(tmp_path, *arguments) == command.EXIT_REFUSED

    assert reason in capsys.readouterr().err


def test_a_quick_run_measures_less_of_everything() -> None:
    assert all(0 < one.quick().count < one.count for one in workloads.WORKLOADS)

"""The comparison with Kafka, end to end with almost no load, with the bare loop in Kafka's place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench import __main__ as command
from bench import rounds, sides, workloads

pytestmark = pytest.mark.long

TINY = tuple(replace(one, count=200 if one.rate else 100) for one in workloads.WORKLOADS)
FEW = tuple(
    replace(growth, workloads=tuple(replace(one, count=10_000) for one in growth.workloads[:2]))
    for growth in workloads.GROWTHS
)


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "WORKLOADS", TINY)
    monkeypatch.setattr(command, "GROWTHS", FEW)
    monkeypatch.setattr(command, "NEEDED_BYTES", 10**6)
    monkeypatch.setattr(sides, "WARM_UP", replace(sides.WARM_UP, count=100))
    monkeypatch.setattr(rounds, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(sides, "PAUSE_SECONDS", 0.0)


def run(folder: Path, *arguments: str) -> int:
    return command.main(["--without-kafka", "--dir", str(folder), *arguments])


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


ALL_MODES = "produce-1k-lz4,consume-100-zstd,single-64,end-to-end,catch-up,clients,partitions"


@pytest.mark.parametrize("client", [(), ("--python-client",)], ids=["C", "Python"])
def test_either_client_does_everything(tmp_path: Path, client: tuple[str, ...]) -> None:
    written, folder = tmp_path / "result.json", tmp_path / "disk"
    folder.mkdir()

    assert run(folder, "--only", ALL_MODES, "--json", str(written), *client) == 0

    result = json.loads(written.read_text())
    assert result["notes"][1:] == []
    report = {(figure["figure"], figure["what"]) for figure in result["figures"]}
    assert ("end-to-end", "end to end at 1,000 messages/s, p99") in report
    assert (
        "catch-up",
        "catch up on 1 KB from a cold disk during 5,000 messages/s, p99 of acknowledgements meanwhile",
    ) in report
    assert ("memory", "memory during partitions, peak resident") in report
    assert ("memory", "memory during all workloads, without mapped files") in report
    for growth in FEW:
        last = growth.workloads[-1]
        assert (last.name, f"{last.what}, keeps of the throughput of 1 {growth.of}") in report


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [(("--rounds", "4"), "take at least 5"), (("--only", "fly"), "there is no workload fly; choose among produce-10,")],
)
def test_what_would_say_nothing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], reason: str
) -> None:
    assert run(tmp_path, *arguments) == command.EXIT_REFUSED

    assert reason in capsys.readouterr().err


def test_what_there_is_no_time_for_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--only", "sync,clients,partitions", "--minutes", "0.000001") == 0

    assert "There was no time for sync, clients, partitions" in " ".join(capsys.readouterr().out.split())


def test_a_quick_run_measures_less_of_some() -> None:
    """Not of synchronous ones: they are few, and their p99 needs them all."""
    for one in workloads.WORKLOADS:
        assert (one.mode == "sync" and one.quick() == one) or 0 < one.quick().count < one.count, one.name
    assert set(workloads.QUICK_NAMES) < set(workloads.NAMES)

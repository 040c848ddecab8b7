"""`qanat bench log`: it measures every figure, reports a missed one, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from qanat.app import main
from qanat.app.bench import log
from qanat.app.bench.figures import Limit, Required, row
from qanat.app.bench.log_figures import commit, plan

TINY = plan.Plan(
    append_bytes=plan.MIB,
    commit_bytes=4 * plan.MIB,
    read_bytes=3 * plan.MIB,
    lookups=50,
    index_bytes=plan.MIB,
    column_records=500,
    partitions=5,
    idle_partitions=5,
)


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "QUICK", TINY)


def run(folder: Path, *arguments: str) -> int:
    return main.run(["bench", "log", "--quick", "--rounds", "3", "--dir", str(folder), *arguments])


@pytest.mark.long
def test_every_figure_is_measured_and_nothing_is_left_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "VOLATILE", ())
    assert run(tmp_path, "-o", "json") == 0

    result = json.loads(capsys.readouterr().out)
    assert {figure["figure"] for figure in result["figures"]} == set(log.FIGURES)
    assert all(figure["ours"] > 0 for figure in result["figures"] if figure["figure"] != "memory")
    assert {"append", "commit", "read"} <= {figure["figure"] for figure in result["figures"] if figure["ratio"]}
    assert result["machine"]["python"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "figure", ["lookup", *(pytest.param(figure, marks=pytest.mark.long) for figure in ("open", "memory"))]
)
def test_what_needs_a_directory_that_was_prepared_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], figure: str
) -> None:
    assert run(tmp_path, "--only", figure, "-o", "json") == 0

    result = json.loads(capsys.readouterr().out)
    assert {one["figure"] for one in result["figures"]} == {figure}


def test_only_what_is_chosen_is_measured_and_written_as_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "performance.md"
    assert run(tmp_path, "--only", "lookup", "--markdown", str(page)) == 0

    assert "200 segments, p99" in capsys.readouterr().out
    text = page.read_text()
    assert "| lookup |" in text
    assert "| append |" not in text
    assert str(tmp_path) not in text
    assert list(tmp_path.iterdir()) == [page]


def test_a_missed_figure_is_said_and_fails_only_a_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    missed = row(
        "read", "read nothing", "MB/s", [1.0, 1.0, 1.0], Limit([4.0, 4.0, 4.0], "all"), Required("ratio", ">=", 0.8)
    )
    monkeypatch.setitem(log.FIGURES, "read", log.Figure(lambda bench: [missed], lambda sizes: 0))

    assert run(tmp_path, "--only", "read") == 0
    assert "NOT met" in capsys.readouterr().out
    assert run(tmp_path, "--only", "read", "--check") == 1
    assert "not met: read: read nothing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--only", "append,speed"], "there is no figure speed; choose among append, commit"),
        (["--rounds", "2"], "use at least 3"),
        (["--dir", "not/there"], "is not a folder"),
        (["--markdown", "not/there/page.md"], "cannot write not/there/page.md"),
    ],
)
def test_bad_input_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    chosen = [] if "--only" in arguments else ["--only", "lookup"]
    given = ["--dir", str(tmp_path)] if "--dir" not in arguments else []

    assert main.run(["bench", "log", "--quick", *given, *chosen, *arguments]) == main.EXIT_FAILED
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_a_full_disk_is_reported_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=10**8))

    assert run(tmp_path) == main.EXIT_FAILED
    assert "0.1 GB free, the measurements need 0.3 GB" in capsys.readouterr().err


def test_a_folder_that_may_not_be_written_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o500)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=10**12))
    folder = tmp_path if os.geteuid() else Path("/proc")  # The kernel refuses root as well there.

    assert run(folder) == main.EXIT_FAILED
    assert f"cannot write to {folder}: " in capsys.readouterr().err


def test_a_file_system_in_memory_has_no_figure_for_the_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "file_system", lambda folder: "tmpfs")

    assert run(tmp_path, "--only", "commit", "-o", "json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["figures"] == []
    assert "commit was skipped" in result["notes"][0]


def test_an_interrupt_leaves_no_files(tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", "qanat.app", "bench", "log", "--only", "append", "--dir", str(tmp_path)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not any(tmp_path.rglob("*.log")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)

    assert (process.returncode, error) == (main.EXIT_INTERRUPTED, "")
    assert list(tmp_path.iterdir()) == []

"""Findings of `qanat doctor`, each with advice."""

from __future__ import annotations

import json
import resource
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from qanat.app.doctor import doctor, machine_checks
from qanat.spark.java import version_in


def test_every_finding_that_is_not_ok_has_an_advice(tmp_path: Path) -> None:
    findings = doctor.examine(tmp_path)

    assert [finding.check for finding in findings if (finding.status == "ok") == bool(finding.advice)] == []


def test_json_holds_every_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    doctor.doctor(data_dir=str(tmp_path), output="json")
    printed = json.loads(capsys.readouterr().out)

    assert {"python", "native core", "sync latency", "free disk"} <= {finding["check"] for finding in printed}


def test_the_table_shows_status_and_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    doctor.doctor(data_dir=str(tmp_path))

    assert "sync latency" in capsys.readouterr().out


def test_a_data_directory_need_not_exist_yet(tmp_path: Path) -> None:
    assert doctor.nearest_folder(tmp_path / "not" / "yet") == tmp_path


def test_the_sync_probe_leaves_nothing_behind(tmp_path: Path) -> None:
    assert len(machine_checks.sync_latencies_ms(tmp_path)) == machine_checks.SYNC_PROBES
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> list[float]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(machine_checks, "sync_latencies_ms", refuse)

    assert machine_checks.check_sync_latency(tmp_path).status == "fail"


def test_a_failed_check_makes_the_command_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=1))

    assert machine_checks.check_free_disk(tmp_path).status == "fail"
    assert doctor.doctor(data_dir=str(tmp_path), output="json") == 1


def test_a_low_limit_of_open_files_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, resource.RLIM_INFINITY))
    finding = machine_checks.check_open_files()

    assert (finding.status, finding.seen) == ("warn", "256 (may be raised to unlimited)")


def test_no_java_is_only_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)

    assert machine_checks.check_java().status == "warn"


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "26-ea" 2026-03-17', 26),
        ("no such thing", None),
    ],
)
def test_java_says_its_version_in_several_ways(line: str, version: int | None) -> None:
    assert version_in(line) == version

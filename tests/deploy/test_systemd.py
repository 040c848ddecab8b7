"""The unit: what systemd itself says of it, offline."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from qanat.app.command_tree import build_app

UNIT = Path(__file__).resolve().parents[2] / "deploy" / "systemd" / "qanat.service"
ANALYZE = shutil.which("systemd-analyze")
EXPOSURE_MAX = 2.5

with_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not here: the unit is not analyzed")


@with_systemd
def test_the_unit_is_hardened() -> None:
    done = subprocess.run(
        [str(ANALYZE), "security", "--offline=yes", "--no-pager", str(UNIT)], capture_output=True, text=True
    )
    found = re.search(r"Overall exposure level for qanat.service: ([0-9.]+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    assert float(found[1]) <= EXPOSURE_MAX


@with_systemd
def test_systemd_understands_every_line(tmp_path: Path) -> None:
    program = tmp_path / "qanat"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "qanat.service"
    unit.write_text(UNIT.read_text().replace("/opt/qanat/bin/qanat", str(program)))
    done = subprocess.run([str(ANALYZE), "verify", "--man=no", str(unit)], capture_output=True, text=True)
    assert [line for line in done.stderr.splitlines() if "qanat.service" in line] == []


def test_the_unit_waits_for_the_notification_and_its_commands_exist() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(UNIT.read_text())
    service = unit["Service"]
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")
    assert int(service["WatchdogSec"]) > 0
    assert service["TimeoutStartSec"] == "infinity", "recovery may take its time"
    app = build_app()
    for line in (service["ExecStartPre"], service["ExecStart"]):
        words = line.split()
        names = words[1 : words.index("--config")]
        assert app.parse_commands(names)[0] == tuple(names)

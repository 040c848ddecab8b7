"""Every command of docs/operating/dead-letters.md runs as it stands, on a real broker."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.app.processes import clean_environment, running_broker
from tests.app.secure.test_ten_minutes import END, missing
from tests.app.test_operating_pipelines_page import BLOCK, http_port, script_of

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "operating" / "dead-letters.md"
TIMEOUT_S = 300


@pytest.mark.skipif(not all(map(shutil.which, ("bash", "curl"))), reason="the page uses bash and curl")
def test_the_page_runs_as_it_stands(tmp_path: Path) -> None:
    parts = [(found["commands"], found["printed"].splitlines()) for found in BLOCK.finditer(PAGE.read_text())]
    programs = tmp_path / "bin"
    programs.mkdir()
    qanat = programs / "qanat"
    qanat.write_text(f'#!/bin/bash\nexec {sys.executable} -m qanat.app "$@"\n')
    qanat.chmod(0o755)
    with running_broker(tmp_path, command="dev", environment={"QANAT_HTTP_PORT": "0"}) as broker:
        environment = clean_environment(
            PATH=f"{programs}:{os.environ['PATH']}",
            COLUMNS="300",
            QANAT_BOOTSTRAP_SERVERS=broker.address,
            PYTHONPATH=os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))),
        )
        script = script_of([commands for commands, _ in parts])
        script = script.replace("localhost:8080", f"127.0.0.1:{http_port(tmp_path)}")
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=TIMEOUT_S
        )
    assert done.returncode == 0, done.stdout[-3000:]
    printed = done.stdout.split(END)

    assert len(parts) == 3
    for (commands, expected), output in zip(parts, printed, strict=False):
        assert missing(expected, output) == [], f"{commands}\n{output}"

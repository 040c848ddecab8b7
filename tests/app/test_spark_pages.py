"""Every command of these pages on Spark runs as it stands, on a real broker and a real Spark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.app.processes import clean_environment, running_broker
from tests.app.secure.test_ten_minutes import END, missing
from tests.app.test_operating_pipelines_page import BLOCK, ROOT, TIMEOUT_S, script_of

PAGES = {"from-the-connector.md": 2, "sizing.md": 1}
"""With the number of their blocks."""


@pytest.mark.long
@pytest.mark.skipif(shutil.which("bash") is None, reason="the page uses bash")
@pytest.mark.parametrize("page", PAGES)
def test_the_page_runs_as_it_stands(tmp_path: Path, page: str) -> None:
    text = (ROOT / "docs" / "spark" / page).read_text()
    parts = [(found["commands"], found["printed"].splitlines()) for found in BLOCK.finditer(text)]
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, command in (("qanat", f"{sys.executable} -m qanat.app"), ("python", sys.executable)):
        program = programs / name
        program.write_text(f'#!/bin/bash\nexec {command} "$@"\n')
        program.chmod(0o755)
    with running_broker(tmp_path, command="dev", environment={"QANAT_HTTP_PORT": "0"}) as broker:
        environment = clean_environment(
            PATH=f"{programs}:{os.environ['PATH']}",
            QANAT_BOOTSTRAP_SERVERS=broker.address,
            PYSPARK_PYTHON=sys.executable,
            PYTHONPATH=os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))),
        )
        script = script_of([commands for commands, _ in parts])
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=TIMEOUT_S
        )
    assert done.returncode == 0, done.stdout[-3000:]
    printed = done.stdout.split(END)

    assert len(parts) == PAGES[page]
    for (commands, expected), output in zip(parts, printed, strict=False):
        assert missing(expected, output) == [], f"{commands}\n{output}"

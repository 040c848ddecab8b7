"""Every command of docs/spark/operating-pipelines.md runs as it stands, on a real broker and a real Spark.

A line that ends with `# refused` has to fail, all others have to succeed. Each line of a block without a language that
follows commands has to be in their output.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.app.processes import clean_environment, running_broker
from tests.app.secure.test_ten_minutes import END, missing

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "spark" / "operating-pipelines.md"
BLOCK = re.compile(r"```sh\n(?P<commands>.*?)```\n\n```\n(?P<printed>.*?)```", re.DOTALL)
TIMEOUT_S = 900


@pytest.mark.long
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
            XDG_STATE_HOME=str(tmp_path / "state"),
            PYTHONPATH=os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))),
        )
        script = script_of([commands for commands, _ in parts])
        script = script.replace("localhost:8080", f"127.0.0.1:{http_port(tmp_path)}")
        try:
            done = subprocess.run(
                ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=TIMEOUT_S
            )
        finally:
            subprocess.run([qanat, "pipeline", "stop", "big-orders", "--now"], env=environment, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout[-3000:]
    printed = done.stdout.split(END)

    assert len(parts) == 5
    for (commands, expected), output in zip(parts, printed, strict=False):
        assert missing(expected, output) == [], f"{commands}\n{output}"


def script_of(blocks: list[str]) -> str:
    lines = ["set -e -o pipefail", "exec 2>&1"]
    for text in blocks:
        for line in text.splitlines():
            refused = line.removesuffix("# refused")
            lines.append(line if refused == line else f"if {refused.rstrip()}; then echo not refused; exit 1; fi")
        lines.append(f"echo; echo '{END}'")
    return "\n".join(lines)


def http_port(folder: Path) -> str:
    """The port in the banner of the broker."""
    found = re.search(r"http://[^:]+:(\d+)", (folder / "banner.txt").read_text())
    assert found is not None
    return found[1]

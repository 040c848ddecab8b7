"""Every command of docs/security/ten-minutes.md runs as it stands, against real brokers, and prints what the page says.

The ports of the page are replaced by free ones. A line that ends with `# refused` has to fail, all others have to
succeed. Each line of a block without a language has to be in the output of the commands before it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.app.cluster.test_up import _base_port
from tests.app.processes import clean_environment

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "security" / "ten-minutes.md"
BLOCK = re.compile(r"```(?P<language>\w*)\n(?P<text>.*?)```", re.DOTALL)
PORT, HTTP_PORT, SECOND = 9092, 8080, 9192
END = "### end of block"
TIMEOUT_S = 300

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not all(map(shutil.which, ("bash", "curl", "openssl"))), reason="the page uses bash, curl and openssl"
    ),
]


def blocks(chapter: str) -> list[tuple[str, list[str]]]:
    """The commands of a chapter, each block with the lines that it prints."""
    found: list[tuple[str, list[str]]] = []
    for match in BLOCK.finditer(chapter):
        if match["language"] == "sh":
            found.append((match["text"], []))
        else:
            found[-1][1].extend(match["text"].splitlines())
    return found


def script_of(commands: list[str], port: int) -> str:
    """One script: the shell's variables and functions live through the whole chapter."""
    lines = ["set -e -o pipefail", "exec 2>&1"]
    for text in commands:
        for line in text.splitlines():
            refused = line.removesuffix("# refused")
            lines.append(line if refused == line else f"if {refused.rstrip()}; then echo not refused; exit 1; fi")
        lines.append(f"echo; echo '{END}'")
    whole = "\n".join(lines)
    for known, used in ((10_000 + PORT, 10_000 + port), (PORT, port), (PORT + 1, port + 1), (SECOND, port + 4)):
        whole = re.sub(rf"\b{known}\b", str(used), whole)
    return re.sub(rf"\b{HTTP_PORT}\b", str(port + 8), whole)


def run(script: str, folder: Path, port: int) -> list[str]:
    """The output of each block."""
    programs = folder / "bin"
    programs.mkdir()
    qanat = programs / "qanat"
    ports = f"""
if [ "$1 $2" = "cluster up" ]; then set -- "$@" --port {port} --http-port {port + 8}; fi
"""
    qanat.write_text(f'#!/bin/bash\n{ports}exec {sys.executable} -m qanat.app "$@"\n')
    qanat.chmod(0o755)
    environment = clean_environment(
        PATH=f"{programs}:{os.environ['PATH']}",
        COLUMNS="200",
        QANAT_BOOTSTRAP_SERVERS=f"127.0.0.1:{port}",
        PYTHONPATH=os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))),
    )
    del environment["QANAT_HTTP_PORT"]
    command = ["bash", "-c", script]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        try:
            printed, _ = process.communicate(timeout=TIMEOUT_S)
        finally:
            # Brokers in the background belong to the group; those of `cluster up` are stopped by the last command.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            subprocess.run([qanat, "cluster", "down"], cwd=folder, capture_output=True, check=False, env=environment)
    assert process.returncode == 0, printed[-3000:]
    return printed.split(END)


def missing(expected: list[str], printed: str) -> list[str]:
    """Lines of the page that were not printed; columns may be wider."""
    flat = re.sub(r" +", " ", printed)
    return [line for line in expected if re.sub(r" +", " ", line.strip()) not in flat]


@pytest.mark.parametrize("chapter", ["open to locked", "rolling restarts"])
def test_the_page_runs_as_it_stands(chapter: str, tmp_path: Path) -> None:
    first, _, second = PAGE.read_text().partition("## A running cluster, without downtime")
    parts = blocks(second if chapter == "rolling restarts" else first)
    parts = [part for part in parts if not part[0].startswith("pip install")]
    port = _base_port()
    printed = run(script_of([commands for commands, _ in parts], port), tmp_path, port)

    assert len(printed) == len(parts) + 1
    assert len(parts) >= 4
    for (commands, expected), output in zip(parts, printed, strict=False):
        wanted = [line.replace(str(PORT), str(port)) for line in expected]
        assert missing(wanted, output) == [], f"{commands}\n{output}"

"""A page's commands as one script, run in a folder of its own against real brokers.

Rule 1: the ports of the page are replaced by free ones, and `/var/lib/qanat` by a folder of the test.
Rule 2: a line that ends with `# refused` has to fail, all others have to succeed.
Rule 3: each line of a block without a language right behind commands has to be in their output; columns may be wider,
        and `…` stands for any text.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.app.cluster.test_up import _base_port
from tests.app.processes import clean_environment
from tests.documents.blocks import ROOT, Block
from tests.documents.qanat_here import HTTP_OFFSET

END = "### end of block"
TIMEOUT_S = 800
_PROGRAMS = {"qanat": "tests.documents.qanat_here {port}", "pip": "tests.documents.pip_here"}


@dataclass(frozen=True, slots=True)
class Page:
    """How a page is run: commands before its own that the page takes for granted, and texts that are replaced."""

    before: str = ""
    instead: tuple[tuple[str, str], ...] = ()


def run(blocks: Sequence[Block], page: Page, folder: Path) -> None:
    """Run the blocks and compare what they print."""
    port = _base_port()
    script = script_of([page.before, *(block.text for block in blocks)], page, folder, port)
    printed = _output(script, folder, port)
    assert len(printed) == len(blocks) + 2, printed[-1][-3000:]
    for block, output in zip(blocks, printed[1:], strict=False):
        wanted = [_replaced(line, folder, port) for line in block.printed]
        assert missing(wanted, output) == [], f"{block.page}: {block.text}\n{output[-3000:]}"


def script_of(texts: Sequence[str], page: Page, folder: Path, port: int) -> str:
    """One script: the shell's variables live through the whole page."""
    lines = ["set -e -o pipefail", "exec 2>&1"]
    for text in texts:
        for old, new in page.instead:
            text = text.replace(old, new)
        for line in _replaced(text, folder, port).splitlines():
            refused = line.removesuffix("# refused")
            lines.append(line if refused == line else f"if {refused.rstrip()}; then echo not refused; exit 1; fi")
        lines.append(f"echo; echo '{END}'")
    return "\n".join(lines)


def _replaced(text: str, folder: Path, port: int) -> str:
    known = {9092 + number: port + number for number in range(3)}
    known |= {8080 + number: port + HTTP_OFFSET + number for number in range(3)}
    known |= {19092 + number: port + 10_000 + number for number in range(3)} | {9308: port + 4}
    for old, new in known.items():
        text = re.sub(rf"(?<![\w.]){old}\b", str(new), text)
    return text.replace("/var/lib/qanat", f"{folder}/var").replace(".venv/bin/", "")


def _output(script: str, folder: Path, port: int) -> list[str]:
    programs, path = folder / "bin", os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    programs.mkdir()
    here = folder / "here"
    here.mkdir()
    for name, module in {**_PROGRAMS, "python": ""}.items():
        call = f"-m {module.format(port=port)}" if module else ""
        (programs / name).write_text(f'#!/bin/bash\nexec {sys.executable} {call} "$@"\n')
        (programs / name).chmod(0o755)
    environment = clean_environment(
        PATH=f"{programs}:{os.environ['PATH']}",
        COLUMNS="300",
        PYTHONPATH=os.pathsep.join(filter(None, (path, os.environ.get("PYTHONPATH", "")))),
        PYSPARK_PYTHON=sys.executable,
        HOME=str(folder),
        XDG_CONFIG_HOME=str(folder / "config"),
        XDG_STATE_HOME=str(folder / "state"),
        QANAT_BOOTSTRAP_SERVERS=f"127.0.0.1:{port}",
        QANAT_PORT=str(port),
        QANAT_HTTP_PORT=str(port + HTTP_OFFSET),
    )
    with subprocess.Popen(
        ["bash", "-c", script], cwd=here, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        try:
            printed, _ = process.communicate(timeout=TIMEOUT_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            stop = "from tests.documents.qanat_here import stop; stop()"
            subprocess.run([sys.executable, "-c", stop], cwd=here, env=environment, check=False, capture_output=True)
    assert process.returncode == 0, printed[-3000:]
    return printed.split(END)


def missing(expected: Sequence[str], printed: str) -> list[str]:
    """Lines of the page that were not printed."""
    flat = re.sub(r" +", " ", printed)
    patterns = {line: r".*".join(map(re.escape, re.sub(r" +", " ", line.strip()).split("…"))) for line in expected}
    return [line for line, pattern in patterns.items() if re.search(pattern, flat) is None]

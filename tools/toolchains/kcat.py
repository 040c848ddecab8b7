"""kcat: this machine's, or Debian's program with the libraries that it loads."""

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
"""Its kcat stands on librdkafka 2.0.2; that of later releases on newer ones."""
PACKAGES = ("kcat", "librdkafka1", "libyajl2", "liblz4-1", "libzstd1", "libsasl2-2", "libssl3")
_WRAPPER = """#!/bin/sh
folder=${0%/*}
LD_LIBRARY_PATH=$(echo "$folder"/lib/*-linux-gnu) exec "$folder/bin/kcat" "$@"
"""


def have_kcat(cache: Path = CACHE) -> Path:
    """The program, brought where it is missing; raises `MissingToolError`."""
    found = shutil.which("kcat")
    if found is not None:
        return Path(found)
    folder = cache / f"kcat-{SUITE}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(prefix="fetching-", dir=cache) as workplace:
                _bring(Path(workplace) / "files").rename(folder)
    return folder / "kcat"


def _bring(files: Path) -> Path:
    for name in PACKAGES:
        unpack(find(name, SUITE), "/usr", files)
    program = files / "kcat"
    program.write_text(_WRAPPER)
    program.chmod(0o755)
    if subprocess.run([program, "-V"], capture_output=True, check=False).returncode:
        raise MissingToolError(f"kcat of Debian's {SUITE} does not run on this machine")
    return files

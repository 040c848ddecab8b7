"""etcdctl: this machine's, or Debian's program, which loads nothing but the C library. etcd: `tools.build_etcd`."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tempfile
from pathlib import Path

from tools.toolchains.debian_packages import find, unpack
from tools.toolchains.registries import MissingToolError
from tools.toolchains.wheels import CACHE

SUITE = "trixie"


def have_etcdctl(cache: Path = CACHE) -> Path:
    """The program, brought where it is missing; raises `MissingToolError`."""
    found = shutil.which("etcdctl")
    if found is not None:
        return Path(found)
    folder = cache / f"etcdctl-{SUITE}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(prefix="fetching-", dir=cache) as workplace:
                _bring(Path(workplace) / "files").rename(folder)
    return folder / "etcdctl"


def _bring(files: Path) -> Path:
    unpack(find("etcd-client", SUITE), "/usr/bin", files)
    if subprocess.run([files / "etcdctl", "version"], capture_output=True, check=False).returncode:
        raise MissingToolError(f"etcdctl of Debian's {SUITE} does not run on this machine")
    return files

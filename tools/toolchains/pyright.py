"""Pyright from npm, by its digest: how programs of users are checked besides mypy. Node.js runs it."""

from __future__ import annotations

import fcntl
import tempfile
from pathlib import Path

from tools.toolchains.node import have_node
from tools.toolchains.npm_archives import Archive, unpack
from tools.toolchains.wheels import CACHE

PYRIGHT = Archive("pyright", "1.1.414", "bf5f473f6167c0d14175492c3263d783b4489a6956e1c06c18e15228e3a3fa42")


def have_pyright(cache: Path = CACHE) -> list[str]:
    """The start of a command line; raises `MissingToolError`."""
    node = have_node().program
    folder = cache / f"pyright-{PYRIGHT.version}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(prefix="fetching-", dir=cache) as workplace:
                unpack(PYRIGHT, Path(workplace)).rename(folder)
    return [node, str(folder / "index.js")]

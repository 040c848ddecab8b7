"""The folder that measurements fill: on a real disk, large enough, removed afterwards."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qanat.model.errors import QanatError

VOLATILE = ("tmpfs", "ramfs")
"""File systems in memory, on which a sync does nothing."""
_GB = 10**9


class BenchRefusedError(QanatError):
    """A measurement that is impossible here; the message says what to change."""


@contextmanager
def workspace(parent: Path, needed_bytes: int) -> Iterator[Path]:
    """A folder inside `parent` that is removed at the end, also after an interrupt."""
    if not parent.is_dir():
        raise BenchRefusedError(f"{parent} is not a folder: create it, or choose another --dir")
    free_bytes = shutil.disk_usage(parent).free
    if free_bytes < needed_bytes:
        raise BenchRefusedError(
            f"{parent} has {free_bytes / _GB:.1f} GB free, the measurements need {needed_bytes / _GB:.1f} GB: "
            "free some space, choose another --dir, or measure less with --quick or --only"
        )
    # Named before it is created: an interrupt at any point leaves a known folder to remove.
    folder = parent / f"qanat-bench-{secrets.token_hex(4)}"
    try:
        try:
            folder.mkdir(0o700)
        except OSError as error:
            raise BenchRefusedError(f"cannot write to {parent}: {error.strerror}; choose another --dir") from error
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def emptied(folder: Path) -> Iterator[Path]:
    """A new subfolder for one round, removed after it, before the kernel writes back its data."""
    inner = Path(tempfile.mkdtemp(dir=folder))
    try:
        yield inner
    finally:
        shutil.rmtree(inner)


def file_system(folder: Path) -> str:
    """Type of the file system that `folder` lies on, as the kernel names it."""
    device = os.stat(folder).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return "unknown"
    for line in mounts:
        before, _, after = line.partition(" - ")
        if before.split()[2] == wanted:
            return after.split()[0]
    return "unknown"

"""Files that only their owner reads: written whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

PRIVATE, PRIVATE_FOLDER = 0o600, 0o700


def make_private_folder(path: Path) -> None:
    path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    path.chmod(PRIVATE_FOLDER)


def write_private(path: Path, content: bytes) -> None:
    """Write a file, over the one that is there; a reader sees the old one or the new one."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise

"""Atomic files: small files that are read and replaced as a whole: checkpoints, sidecars, snapshots.

`replace` is atomic: after a crash there is the old content or the new one.
"""

from __future__ import annotations

from qanat.log.files import Buffer, Files

TEMPORARY_SUFFIX = ".tmp"
_ALL_BYTES = 2**63 - 1
"""As a length to read: up to the end, so that a read need not ask for the size first."""


def parent(path: str) -> str:
    return path.rpartition("/")[0] or "."


def read_whole(files: Files, path: str) -> bytes | None:
    """The file's content, or None where there is no such file."""
    if not files.exists(path):
        return None
    file = files.open(path)
    try:
        return bytes(file.read(0, _ALL_BYTES))
    finally:
        file.close()


def write_volatile(files: Files, path: str, content: Buffer) -> None:
    """Write a file that can be rebuilt: a power loss may remove or tear it."""
    file = files.open(path, create=True)
    try:
        file.write((content,), 0)
    finally:
        file.close()


def write_content(files: Files, path: str, content: Buffer) -> None:
    """Write a file and make its bytes durable; the next sync of the folder makes its name durable."""
    file = files.open(path, create=True)
    try:
        file.write((content,), 0)
        file.sync()
    finally:
        file.close()


def replace(files: Files, path: str, content: Buffer) -> None:
    """Write a file durably and in one step."""
    file = files.open(path + TEMPORARY_SUFFIX, create=True)
    try:
        file.write((content,), 0)
        file.sync()
        file.rename(path)
    finally:
        file.close()
    files.sync_directory(parent(path))

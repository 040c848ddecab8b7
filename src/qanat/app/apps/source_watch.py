"""Changes of Python files below a directory, for `qanat run --reload`."""

from __future__ import annotations

import os
from pathlib import Path

_IGNORED = frozenset({".git", ".venv", "venv", "__pycache__", "node_modules", ".mypy_cache", ".pytest_cache"})


def stamps(directory: Path) -> dict[str, int]:
    """The time of the last change of each Python file, in nanoseconds."""
    found: dict[str, int] = {}
    for folder, folders, files in os.walk(directory):
        folders[:] = sorted(one for one in folders if one not in _IGNORED and not one.startswith("."))
        for file in files:
            if file.endswith(".py"):
                path = os.path.join(folder, file)
                try:
                    found[path] = os.stat(path).st_mtime_ns
                except OSError:
                    continue  # It was deleted meanwhile.
    return found


def changed(before: dict[str, int], after: dict[str, int]) -> str | None:
    """The first file that is new, gone or different; None where all are the same."""
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) != after.get(path):
            return path
    return None

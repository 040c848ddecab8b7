"""Spark's processes below a given one, by kind: driver JVMs, executors, Python workers."""

from __future__ import annotations

import contextlib
from pathlib import Path

COMMAND_PARTS = {
    "executor": "CoarseGrainedExecutorBackend",
    "worker": "pyspark.daemon pyspark.worker",
    "driver": "pyspark-shell",
}
"""What the command line of each kind contains."""


def descendants(root: int) -> dict[int, str]:
    """Every descendant of a process, with its command line."""
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name may hold blanks and brackets; the parent comes after the last bracket.
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            commands[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
    found: dict[int, str] = {}
    level = [root]
    while level:
        level = [pid for pid, parent in parents.items() if parent in level]
        found.update({pid: commands[pid] for pid in level if pid in commands})
    return found


def of_kind(root: int, kind: str) -> list[int]:
    """The descendants of a process that are of a kind, in the order of their ids."""
    return sorted(pid for pid, command in descendants(root).items() if COMMAND_PARTS[kind] in command)

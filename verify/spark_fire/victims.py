"""The processes below this one, by what they are: a driver's JVM, executors, Python workers."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from random import Random

SIGNS = {
    "executor": "CoarseGrainedExecutorBackend",
    "worker": "pyspark.daemon pyspark.worker",
    "driver": "pyspark-shell",
}
"""What stands in the command line of each."""


def below(root: int) -> dict[int, str]:
    """Every descendant of a process, with its command line."""
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name may hold blanks and brackets; what counts comes behind the last one.
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            commands[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
    found: dict[int, str] = {}
    level = [root]
    while level:
        level = [pid for pid, parent in parents.items() if parent in level]
        found.update({pid: commands[pid] for pid in level if pid in commands})
    return found


def strike(root: int, kind: str, random: Random) -> bool:
    """Kill one process of a kind with -9; whether there was one.

    What is below it goes with it: workers whose daemon is gone work on, and nobody would find them again.
    """
    found = sorted(pid for pid, command in below(root).items() if SIGNS[kind] in command)
    if not found:
        return False
    victim = random.choice(found)
    for pid in (victim, *below(victim)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return True

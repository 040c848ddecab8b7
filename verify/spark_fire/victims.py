"""Processes of a Spark job that the run kills with -9: a driver's JVM, executors, Python workers."""

from __future__ import annotations

import contextlib
import os
import signal
from random import Random

from tools.spark_processes import descendants, of_kind


def kill_one(root: int, kind: str, random: Random) -> bool:
    """Kill one process of a kind with -9; returns whether there was one.

    Its descendants die with it: Python workers outlive their daemon, and no later search would find them.
    """
    found = of_kind(root, kind)
    if not found:
        return False
    victim = random.choice(found)
    for pid in (victim, *descendants(victim)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return True

"""What the kernel says of a process: CPU time and memory."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_SCHEDULED = 2
"""CPUCLOCK_SCHED: what the scheduler has given it."""
_KIB = 1024


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident bytes; `own_bytes` leaves out mapped files, which are the kernel's page cache."""

    resident_bytes: int
    own_bytes: int


def cpu_seconds(pid: int) -> float:
    """User and system time so far, of all threads, also those that have ended.

    Asked of the process's own clock, as clock_getcpuclockid(3) names it: /proc counts in hundredths of a second.
    """
    return time.clock_gettime((~pid << 3) | _SCHEDULED)


def memory(pid: int) -> Memory:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return Memory(_kilobytes(fields["VmRSS"]), _kilobytes(fields.get("RssAnon", fields["VmRSS"])))


def memory_of_all(pids: Iterable[int]) -> Memory:
    found = [memory(pid) for pid in pids]
    return Memory(sum(one.resident_bytes for one in found), sum(one.own_bytes for one in found))


def _kilobytes(text: str) -> int:
    return int(text.split()[0]) * _KIB


def affinity() -> list[int]:
    """The processors that this process and what it starts may use."""
    return sorted(os.sched_getaffinity(0))

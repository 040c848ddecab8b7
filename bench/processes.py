"""CPU time and memory of processes, from the kernel."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

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


def peak_resident_bytes(pids: Iterable[int]) -> int:
    """The sum of the processes' peak resident memory."""
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return sum(_kilobytes(line.partition(":")[2]) for line in lines if line.startswith("VmHWM:"))


class MemoryWatch:
    """The peak memory of processes without mapped files, by sampling: the kernel has no such peak."""

    _EVERY_SECONDS = 0.1

    def __init__(self, pids: Iterable[int]) -> None:
        self._pids = tuple(pids)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.most_own_bytes = memory_of_all(self._pids).own_bytes

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(self._EVERY_SECONDS):
            try:
                self.most_own_bytes = max(self.most_own_bytes, memory_of_all(self._pids).own_bytes)
            except (FileNotFoundError, ProcessLookupError, KeyError):
                return


def are_alive(pids: Iterable[int]) -> bool:
    return all(_state(pid) not in ("", "Z", "X") for pid in pids)


def _state(pid: int) -> str:
    """The kernel's state letter; a server that has ended and was not waited for is a zombie (Z)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def _kilobytes(text: str) -> int:
    return int(text.split()[0]) * _KIB


def affinity() -> list[int]:
    """The processors that this process and its children may use."""
    return sorted(os.sched_getaffinity(0))


def open_files_allowed() -> None:
    """Raise the limit of open files for this process and its children; 1,000 clients need more than usual."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

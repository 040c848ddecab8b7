"""Metrics of the process and its disk: CPU time, memory, descriptors, space, and the lag of the event loop."""

from __future__ import annotations

import asyncio
import os
import resource
import time

from qanat.telemetry.histogram import SECONDS, Histogram

_EVERY_S = 1.0


def cpu_seconds() -> float:
    return time.process_time()


def resident_bytes() -> int | None:
    """Resident memory; None where the system does not report it."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def open_descriptors() -> int | None:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return None


def descriptors_max() -> int | None:
    """How many descriptors the process may open; None where there is no limit."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def start_time_seconds() -> float:
    """When the process started, in seconds since 1970."""
    return _STARTED_S


def _started_s() -> float:
    """From the system's boot time and the process's start after it; the import of this module where that is unknown."""
    try:
        with open("/proc/self/stat", "rb") as stat:
            ticks = int(stat.read().rpartition(b")")[2].split()[19])
        with open("/proc/uptime", "rb") as uptime:
            up_s = float(uptime.read().split()[0])
        return time.time() - up_s + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return time.time()


_STARTED_S = _started_s()


def disk_free_bytes(path: str) -> int | None:
    """Space that the disk of a directory has left for us; None where the directory is not on a disk."""
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def disk_size_bytes(path: str) -> int | None:
    """The size of a directory's disk; None where the directory is not on a disk."""
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_blocks * found.f_frsize


class LoopLag:
    """The lag of the event loop, measured once a second."""

    def __init__(self) -> None:
        self.late_s = Histogram(SECONDS)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(loop.time() + _EVERY_S, self._observe, loop.time() + _EVERY_S)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _observe(self, due_s: float) -> None:
        self.late_s.observe(max(asyncio.get_running_loop().time() - due_s, 0.0))
        self.start()

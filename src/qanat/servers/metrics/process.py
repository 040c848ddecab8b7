"""Metrics of the process: CPU time, memory, descriptors, and the lag of the event loop."""

from __future__ import annotations

import asyncio
import os
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

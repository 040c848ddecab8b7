"""What the operating system says of this process, and how late the event loop is."""

from __future__ import annotations

import asyncio
import os
import time

from qanat.telemetry.histogram import SECONDS, Histogram

_LOOK_S = 1.0


def cpu_seconds() -> float:
    return time.process_time()


def resident_bytes() -> int | None:
    """Memory that is really there; None where the system does not tell."""
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
    """Once a second, how much later than asked for the event loop came round."""

    def __init__(self) -> None:
        self.late_s = Histogram(SECONDS)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(loop.time() + _LOOK_S, self._look, loop.time() + _LOOK_S)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, due_s: float) -> None:
        self.late_s.observe(max(asyncio.get_running_loop().time() - due_s, 0.0))
        self.start()

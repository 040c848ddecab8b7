"""How large Python workers grow while a backlog is read."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

from tools.spark_processes import of_kind

_PAUSE_S = 0.2


class WorkerMemory:
    """The largest resident size of any Python worker below this process, by sampling."""

    def __init__(self) -> None:
        self.largest_mb = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> WorkerMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_PAUSE_S):
            for pid in of_kind(os.getpid(), "worker"):
                self.largest_mb = max(self.largest_mb, _resident_mb(pid))


def _resident_mb(pid: int) -> float:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024
    return 0.0

"""The largest resident memory of the processes of a run, by sampling."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import defaultdict
from pathlib import Path

from tools.spark_processes import descendants

_PAUSE_S = 0.5


class PeakMemory:
    """Samples the descendants of this process. Use it in a `with`."""

    def __init__(self) -> None:
        self.peaks_mb: dict[str, float] = {}
        """By kind: the largest process of it; and the largest sum of all private memory."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_PAUSE_S):
            now: dict[str, float] = defaultdict(float)
            for pid, command in descendants(os.getpid()).items():
                kind = kind_of(command)
                resident, private = _memory_mb(pid)
                if kind is not None and resident:
                    now[kind] = max(now[kind], private if kind == "broker" else resident)
                    now["together"] += private
            for kind, size in now.items():
                self.peaks_mb[kind] = max(self.peaks_mb.get(kind, 0.0), size)


def kind_of(command: str) -> str | None:
    """
    >>> kind_of("/usr/bin/java -cp spark org.apache.spark.deploy.SparkSubmit pyspark-shell")
    'Java'
    """
    words = command.split()
    if not words:
        return None
    if words[0].rsplit("/")[-1] == "java":
        return "Java"
    if "qanat.app start" in command:
        return "broker"
    if "qanat.app pipeline" in command:
        return "command"
    return "Python worker" if "python" in words[0] else None


def _memory_mb(pid: int) -> tuple[float, float]:
    """Resident memory, and the part of it that belongs to no file."""
    with contextlib.suppress(OSError, LookupError, ValueError):
        lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
        return tuple(int(lines[name].split()[0]) / 1024 for name in ("VmRSS", "RssAnon"))  # type: ignore[return-value]
    return 0.0, 0.0

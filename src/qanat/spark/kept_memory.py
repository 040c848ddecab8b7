"""Memory that stays with one of Spark's Python processes: what a task lets go of, and what was imported.

Tasks take and let go of buffers of some MB all the time. The C library gives such memory back to the system at once and
asks for it anew, and the system clears every page of it again: about a quarter of a reading task's time, as measured.

Spark has its processes look for garbage after each task and each step, through everything that was ever imported: 7 %
of the time of tasks that write by perf, 18 % by py-spy. What is there when the first task begins is left alone then.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Numbers of glibc's mallopt(3)."""
_FROM_SYSTEM_BYTES = 32 * 1024 * 1024
"""Larger than any buffer of a task, and the most that glibc allows."""
_KEPT_BYTES = 64 * 1024 * 1024


def keep_memory() -> None:
    """Let this process keep its modules, and up to 64 MB that it does not use; the latter with glibc alone."""
    if not gc.get_freeze_count():
        gc.freeze()
    with suppress(OSError, AttributeError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, _FROM_SYSTEM_BYTES)
        library.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)

"""Memory of Spark's Python processes: freed buffers stay in the process, imported modules out of garbage collection.

Tasks allocate and free buffers of some MB all the time. The C library returns such memory to the system at once and
requests it again, and the system clears every page each time: about a quarter of a reading task's time, as measured.

Spark runs a garbage collection after each task and each step, over everything ever imported: 7 % of the time of writing
tasks by perf, 18 % by py-spy. Objects that exist before the first task are therefore frozen.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt(3)."""
_FROM_SYSTEM_BYTES = 32 * 1024 * 1024
"""Larger than any buffer of a task, and the most that glibc allows."""
_KEPT_BYTES = 64 * 1024 * 1024


def retain_memory() -> None:
    """Freeze imported modules, and let the process retain up to 64 MB of free memory; the latter needs glibc."""
    if not gc.get_freeze_count():
        gc.freeze()
    with suppress(OSError, AttributeError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, _FROM_SYSTEM_BYTES)
        library.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)

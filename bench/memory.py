"""Free memory, used once before a measurement, so that the host's time to find it is not measured.

In a virtual machine the first write to a page of memory makes the host find that page, which costs more than filling
it: 1.1 GB of page cache took 1.27 s of processor time, and 0.22 s when the same memory was used again. A guest may also
report free pages to its host, which takes some of them back. It affects both sides, irregularly, and the side that
writes more most. So a run's memory is used just before it begins, and is free and present then.
"""

from __future__ import annotations

import mmap
from pathlib import Path

_POPULATE_WRITE = 23
"""MADV_POPULATE_WRITE, which Python has no name for; Linux 5.14 and later know it."""
_LEFT_ALONE_BYTES = 2 << 30
AT_HAND = "as much as a run fills is used just before it, so that the host has it at hand"


def have_memory(size: int) -> None:
    """Write to so much free memory, if there is as much, and free it."""
    size = min(size, _available_bytes() - _LEFT_ALONE_BYTES)
    if size <= 0:
        return
    with mmap.mmap(-1, size) as piece:
        try:
            piece.madvise(_POPULATE_WRITE)
        except OSError:  # An older kernel: a write to each page does the same, more slowly.
            for at in range(0, size, mmap.PAGESIZE):
                piece[at] = 1


def _available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0

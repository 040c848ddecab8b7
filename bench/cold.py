"""Files that are on the disk and not in memory: what a reader finds who comes long after the writers.

Pages that some process has mapped and read stay whatever is asked; so cold is only what was written and not yet read.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

from qanat.adapters.page_cache import address_of

_LIBC = ctypes.CDLL(None, use_errno=True)
_MOST_WARM = 0.05
"""Ends of files and small ones that a server has mapped may stay."""


class StillWarmError(Exception):
    """The kernel keeps what it was asked to drop; says how much of it."""


def make_cold(folder: Path) -> None:
    """Write everything to disk, and drop it from the page cache."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]
    for path in files:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
    if (share := warm_share(files)) > _MOST_WARM:
        raise StillWarmError(f"{share:.0%} of the files stay in the page cache")


def warm_share(files: list[Path]) -> float:
    """How much of what these files take on disk is in memory."""
    warm = sum(map(_warm_pages, files))
    pages = sum(path.stat().st_blocks * 512 for path in files) / mmap.PAGESIZE
    return warm / pages if pages else 0.0


def _warm_pages(path: Path) -> int:
    size = path.stat().st_size
    found = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as room, memoryview(room) as view:
        if _LIBC.mincore(ctypes.c_void_p(address_of(view)), ctypes.c_size_t(size), found):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
    return sum(one & 1 for one in found)

"""Cold files: on the disk and not in memory, as for a consumer that comes long after the producers.

Pages that some process has mapped and read stay whatever is asked; so cold is only what was written and not yet read.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

from qanat.adapters.page_cache import address_of

_LIBC = ctypes.CDLL(None, use_errno=True)
_BLOCK_BYTES = 512
"""The unit of a file's blocks on disk."""
_MOST_WARM, _LITTLE_BYTES = 0.05, 8 << 20
"""Ends of files, and small mapped files, may stay in memory."""


class StillWarmError(Exception):
    """The kernel did not drop the files from memory; the message says how much is left."""


def make_cold(folder: Path) -> None:
    """Write everything to disk, and drop it from the page cache. Files that are removed meanwhile are skipped."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in files:
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    warm, taken = in_memory(files)
    if warm > max(_LITTLE_BYTES, taken * _MOST_WARM):
        raise StillWarmError(f"{warm / taken:.0%} of {taken / 1e6:,.0f} MB of files stay in the page cache")


def in_memory(files: Iterable[Path]) -> tuple[int, int]:
    """How many bytes of these files are in memory, and how many they take on disk."""
    warm = taken = 0
    for path in files:
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            found = os.fstat(file.fileno())
            taken += found.st_blocks * _BLOCK_BYTES
            warm += _warm_pages(file.fileno(), found.st_size) * mmap.PAGESIZE if found.st_size else 0
    return warm, taken


def _warm_pages(fd: int, size: int) -> int:
    found = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    with mmap.mmap(fd, size, prot=mmap.PROT_READ) as room, memoryview(room) as view:
        if _LIBC.mincore(ctypes.c_void_p(address_of(view)), ctypes.c_size_t(size), found):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return sum(one & 1 for one in found)

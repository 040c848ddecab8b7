"""Bare loops, the limits of this machine: they only move the bytes.

Each loop returns what it did, so that a test can compare it with the file.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from qanat.wire.crc import crc32c


@dataclass(frozen=True, slots=True)
class BareRun:
    """One run of a bare loop."""

    seconds: float
    written_bytes: int
    synced_bytes: int = 0
    syncs: int = 0
    most_unsynced_bytes: int = 0


def write(path: Path, batch: bytes, count: int) -> BareRun:
    """Repeated `pwrite` of the batch to the end of a new file."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        position, size = 0, len(batch)
        start = time.perf_counter()
        for _ in range(count):
            position += os.pwrite(fd, batch, position)
        seconds = time.perf_counter() - start
        assert position == count * size, "a short write"
        return BareRun(seconds, position)
    finally:
        os.close(fd)


class OverlappedSync:
    """One thread writes, another calls `fdatasync` in a loop; the writer waits while too much is unsynced."""

    def __init__(self, fd: int, unsynced_bytes_max: int) -> None:
        self._fd = fd
        self._bound_bytes = unsynced_bytes_max
        self._changed = threading.Condition()
        self._written_bytes = 0
        self._synced_bytes = 0
        self._most_unsynced_bytes = 0
        self._syncs = 0
        self._is_ending = False

    def run(self, batch: bytes, count: int) -> BareRun:
        start = time.perf_counter()
        syncer = threading.Thread(target=self._sync_until_done, name="bare-sync")
        syncer.start()
        try:
            for _ in range(count):
                self._write(batch)
        finally:
            with self._changed:
                self._is_ending = True
                self._changed.notify()
            syncer.join()
        seconds = time.perf_counter() - start
        return BareRun(seconds, self._written_bytes, self._synced_bytes, self._syncs, self._most_unsynced_bytes)

    def _write(self, batch: bytes) -> None:
        with self._changed:
            while self._written_bytes - self._synced_bytes > self._bound_bytes:
                self._changed.wait()
        length = os.pwrite(self._fd, batch, self._written_bytes)
        with self._changed:
            self._written_bytes += length
            self._most_unsynced_bytes = max(self._most_unsynced_bytes, self._written_bytes - self._synced_bytes)
            self._changed.notify()

    def _sync_until_done(self) -> None:
        while True:
            with self._changed:
                while self._written_bytes == self._synced_bytes:
                    if self._is_ending:
                        return
                    self._changed.wait()
                covered_bytes = self._written_bytes
            os.fdatasync(self._fd)
            self._syncs += 1
            with self._changed:
                self._synced_bytes = covered_bytes
                self._changed.notify()


def write_synced(path: Path, batch: bytes, count: int, unsynced_bytes_max: int) -> BareRun:
    """`pwrite` beside `fdatasync`, until everything is durable."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        return OverlappedSync(fd, unsynced_bytes_max).run(batch, count)
    finally:
        os.close(fd)


class MapWalk:
    """Files mapped whole and checksummed in chunks. The maps stay open between walks, as in the log."""

    def __init__(self, paths: Sequence[str]) -> None:
        with ExitStack() as files:
            opened = [files.enter_context(open(path, "rb")) for path in paths]
            self._maps = [mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) for file in opened]

    def walk(self, chunks: Sequence[tuple[int, int, int]]) -> tuple[float, int]:
        """Checksum each (file, start, end); returns seconds and the checksums folded into one."""
        views = [memoryview(mapped) for mapped in self._maps]
        folded = 0
        start = time.perf_counter()
        for file, first, end in chunks:
            folded ^= crc32c(views[file][first:end])
        return time.perf_counter() - start, folded

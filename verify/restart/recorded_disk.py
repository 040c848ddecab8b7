"""A recorded disk: real files, with a record of what a power cut could not lose.

`RecordedFiles` implements the port `log.files` on the operating system's files. It applies every change to a simulated
disk as well, which knows the synced bytes and names (`qanat.testing.simulation.disk`).

Rule 1: a sync covers what was written before it began; it counts from when the real sync has returned, and before the
        broker learns of that. A cut in between finds the state of the last completed sync.
Rule 2: many threads use it; a thread that touches the simulated disk holds `lock`.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from qanat.adapters.os_file import OsFile
from qanat.adapters.os_files import OsFiles
from qanat.log.files import Buffer, Lock
from qanat.testing.simulation.disk import SimDisk, SimFile
from qanat.testing.simulation.disk_nodes import Folder, Inode


class RecordedDisk:
    """The simulated disk that records the real one."""

    def __init__(self, seed: int) -> None:
        self.lock = threading.RLock()
        self.shadow = SimDisk(seed)

    @contextmanager
    def syncing(self, file: SimFile) -> Iterator[None]:
        """A context around a real sync of a file's bytes."""
        inode = file.inode
        with self.lock:
            begun = list(inode.pending)
        yield
        with self.lock:
            self.shadow.before_change("sync")
            inode.settle(_still_pending(inode.pending, begun))

    @contextmanager
    def syncing_folder(self, path: str) -> Iterator[None]:
        """A context around a real sync of a folder's names."""
        with self.lock:
            begun = list(self.shadow.journal.pending)
        yield
        with self.lock:
            self.shadow.before_change("sync_directory")
            journal, folder = self.shadow.journal, self.shadow.folder(path)
            journal.sync(folder, _still_pending(journal.pending, begun))


def _still_pending(now: Sequence[object], begun: Sequence[object]) -> int:
    """How many of the earlier changes are still pending; they are the oldest."""
    before = {id(change) for change in begun}
    return sum(id(change) in before for change in now)


def content(disk: SimDisk, path: str) -> dict[str, bytes | None]:
    """Every file below a folder with its bytes, and every folder with None, by relative path."""
    found: dict[str, bytes | None] = {}

    def visit(folder: Folder, prefix: str) -> None:
        for name, node in folder.entries.items():
            if isinstance(node, Folder):
                found[prefix + name] = None
                visit(node, f"{prefix}{name}/")
            elif isinstance(node, Inode):
                found[prefix + name] = bytes(memoryview(node.buffer)[: node.size])

    if disk.exists(path):
        visit(disk.folder(path), "")
    return found


class RecordedFiles:
    """The port `log.files` on both disks."""

    def __init__(self, disk: RecordedDisk, real: OsFiles) -> None:
        self._disk = disk
        self._real = real

    def open(self, path: str, *, create: bool = False) -> RecordedFile:
        with self._disk.lock:
            return RecordedFile(
                self._disk, self._real.open(path, create=create), self._disk.shadow.open(path, create=create)
            )

    def exists(self, path: str) -> bool:
        return self._real.exists(path)

    def list(self, path: str) -> builtins.list[str]:
        return self._real.list(path)

    def make_directory(self, path: str) -> None:
        self._both(lambda: self._real.make_directory(path), lambda: self._disk.shadow.make_directory(path))

    def remove_directory(self, path: str) -> None:
        self._both(lambda: self._real.remove_directory(path), lambda: self._disk.shadow.remove_directory(path))

    def rename(self, old: str, new: str) -> None:
        self._both(lambda: self._real.rename(old, new), lambda: self._disk.shadow.rename(old, new))

    def remove(self, path: str) -> None:
        self._both(lambda: self._real.remove(path), lambda: self._disk.shadow.remove(path))

    def sync_directory(self, path: str) -> None:
        with self._disk.syncing_folder(path):
            self._real.sync_directory(path)

    def lock(self, path: str) -> Lock:
        return self._real.lock(path)

    def _both(self, real: Callable[[], None], shadow: Callable[[], None]) -> None:
        with self._disk.lock:
            real()
            shadow()


class RecordedFile:
    """One file on both disks; reads use the real one."""

    def __init__(self, disk: RecordedDisk, real: OsFile, shadow: SimFile) -> None:
        self._disk = disk
        self._real = real
        self._shadow = shadow

    @property
    def path(self) -> str:
        return self._real.path

    @property
    def key_id(self) -> str | None:
        return self._real.key_id

    def size(self) -> int:
        return self._real.size()

    def write(self, chunks: Sequence[Buffer], position: int) -> int:
        with self._disk.lock:
            written = self._real.write(chunks, position)
            self._shadow.write(chunks, position)
            return written

    def read(self, position: int, length: int) -> bytearray:
        return self._real.read(position, length)

    def view(self, length: int) -> memoryview:
        return self._real.view(length)

    def is_resident(self, position: int, length: int) -> bool:
        return self._real.is_resident(position, length)

    def truncate(self, length: int) -> None:
        with self._disk.lock:
            self._real.truncate(length)
            self._shadow.truncate(length)

    def sync(self) -> None:
        with self._disk.syncing(self._shadow):
            self._real.sync()

    def drop_cache(self) -> None:
        self._real.drop_cache()

    def rename(self, path: str) -> None:
        with self._disk.lock:
            self._real.rename(path)
            self._shadow.rename(path)

    def close(self) -> None:
        self._real.close()
        self._shadow.close()

"""Files in memory, behind the port `log.files`: for the `memory` storage engine and for tests.

Nothing survives the process, so `sync` has nothing to do. A file's buffer is
replaced by one twice as long when it is full; views keep the buffer they were
taken from, and bytes that a view shows are never rewritten (the port's rule 1),
so old views do not change. Folders are copied before they are iterated: a
worker may change names while the owner's thread runs.
"""

from __future__ import annotations

import builtins
import posixpath
import threading
from collections.abc import Sequence

from qanat.log.files import Buffer
from qanat.model.errors import DirectoryLockedError, StorageError

_FIRST_BUFFER_BYTES = 4096


class MemoryFile:
    """A growing buffer with a name. Handles opened on one path share one of these."""

    __slots__ = ("_buffer", "_files", "_lock", "_size", "path")

    def __init__(self, path: str, files: MemoryFiles) -> None:
        self.path = path
        self._files = files
        self._buffer = bytearray()
        self._size = 0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<MemoryFile {self.path} {self._size} bytes>"

    @property
    def key_id(self) -> None:
        """Nothing is encrypted here."""
        return

    def size(self) -> int:
        return self._size

    def write(self, chunks: Sequence[Buffer], position: int) -> int:
        end = position
        length = sum(map(len, chunks))
        if length == 0:
            return 0
        with self._lock:
            self._reserve(position + length)
            for chunk in chunks:
                start, end = end, end + len(chunk)
                # Through a view, because a slice of a bytearray must not be assigned while views exist.
                memoryview(self._buffer)[start:end] = chunk
            self._size = max(self._size, end)
        return length

    def truncate(self, length: int) -> None:
        with self._lock:
            self._size = min(self._size, length)

    def read(self, position: int, length: int) -> bytearray:
        with self._lock:
            return self._buffer[position : min(position + length, self._size)]

    def view(self, length: int) -> memoryview:
        if length > self._size:
            raise StorageError(f"{self.path} has {self._size} bytes where {length} are expected")
        return memoryview(self._buffer).toreadonly()[:length]

    def is_resident(self, position: int, length: int) -> bool:
        return True

    def sync(self) -> None:
        pass

    def drop_cache(self) -> None:
        pass

    def rename(self, path: str) -> None:
        self._files.rename_file(self, path)

    def close(self) -> None:
        pass

    def _reserve(self, length: int) -> None:
        if length > len(self._buffer):
            buffer = bytearray(max(length, 2 * len(self._buffer), _FIRST_BUFFER_BYTES))
            buffer[: self._size] = memoryview(self._buffer)[: self._size]
            self._buffer = buffer


class MemoryFiles:
    """A file system in memory. `/` exists from the start and is the working directory."""

    def __init__(self) -> None:
        self._files: dict[str, MemoryFile] = {}
        self._folders: dict[str, None] = {"/": None}
        self._locks: dict[str, MemoryLock] = {}

    def __repr__(self) -> str:
        return f"<MemoryFiles {len(self._files)} files, {sum(file.size() for file in self._files.values())} bytes>"

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        path = _absolute(path)
        if create:
            self._require_folder(posixpath.dirname(path))
            if path in self._folders:
                raise StorageError(f"cannot create {path}: it is a folder")
            self._files[path] = MemoryFile(path, self)
        if path not in self._files:
            raise StorageError(f"cannot open {path}: no such file")
        return self._files[path]

    def exists(self, path: str) -> bool:
        path = _absolute(path)
        return path in self._files or path in self._folders

    def list(self, path: str) -> builtins.list[str]:
        path = _absolute(path)
        self._require_folder(path)
        return sorted(posixpath.basename(name) for name in self._names_in(path))

    def make_directory(self, path: str) -> None:
        path = _absolute(path)
        while path not in self._folders:
            if path in self._files:
                raise StorageError(f"cannot create folder {path}: it is a file")
            self._folders[path] = None
            path = posixpath.dirname(path)

    def remove_directory(self, path: str) -> None:
        path = _absolute(path)
        if path in self._files:
            raise StorageError(f"cannot remove folder {path}: it is a file")
        if path in self._folders and self._names_in(path):
            raise StorageError(f"cannot remove folder {path}: it is not empty")
        self._folders.pop(path, None)

    def rename(self, old: str, new: str) -> None:
        old, new = _absolute(old), _absolute(new)
        self._require_folder(posixpath.dirname(new))
        if old == new and self.exists(old):
            return
        if old in self._files and new not in self._folders:
            self._files[new] = file = self._files.pop(old)
            file.path = new
        elif old in self._folders and new not in self._files and not self._names_in(new):
            self._rename_folder(old, new)
        else:
            raise StorageError(f"cannot rename {old} to {new}: no such file, or the new name is taken")

    def rename_file(self, file: MemoryFile, new: str) -> None:
        """Rename by handle, which must still have its name."""
        assert self._files.get(file.path) is file, f"{file.path} was removed or replaced: no name is left to change"
        self.rename(file.path, new)

    def remove(self, path: str) -> None:
        path = _absolute(path)
        if path in self._folders:
            raise StorageError(f"cannot remove {path}: it is a folder")
        self._files.pop(path, None)

    def sync_directory(self, path: str) -> None:
        self._require_folder(_absolute(path))

    def lock(self, path: str) -> MemoryLock:
        path = _absolute(path)
        if path in self._locks:
            raise DirectoryLockedError(f"{posixpath.dirname(path)} is in use by this process; choose another directory")
        self._locks[path] = lock = MemoryLock(path, self._locks)
        return lock

    def end_locks(self) -> None:
        """Release every lock, as the end of a process does that could not release its own."""
        self._locks.clear()

    def _require_folder(self, path: str) -> None:
        if path not in self._folders:
            raise StorageError(f"there is no folder {path}; create it first")

    def _names_in(self, folder: str) -> builtins.list[str]:
        return [
            path
            for paths in (self._files, self._folders)
            for path in tuple(paths)
            if path != folder and posixpath.dirname(path) == folder
        ]

    def _rename_folder(self, old: str, new: str) -> None:
        inside = old + "/"
        for path in [path for path in tuple(self._folders) if path == old or path.startswith(inside)]:
            del self._folders[path]
            self._folders[new + path[len(old) :]] = None
        for path in [path for path in tuple(self._files) if path.startswith(inside)]:
            file = self._files.pop(path)
            file.path = new + path[len(old) :]
            self._files[file.path] = file


class MemoryLock:
    """A claim on a path among the users of one `MemoryFiles`."""

    def __init__(self, path: str, locks: dict[str, MemoryLock]) -> None:
        self._path = path
        self._locks = locks

    def release(self) -> None:
        if self._locks.get(self._path) is self:
            del self._locks[self._path]


def _absolute(path: str) -> str:
    return posixpath.normpath(posixpath.join("/", path))

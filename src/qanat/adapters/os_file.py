"""One operating-system file, and the bounded set of descriptors that all of them share.

A file's descriptor is opened on first use and may be closed to make room for
another's; it is reopened by path when needed. Second chance instead of strict
recency keeps the bookkeeping of `write` and `view` at one store.

Rule 1: a descriptor is never closed while it is dirty (an fsync error would be
        lost with it), in use, or the last way to a file whose name is gone.
Rule 2: a user of a descriptor first announces it (`_is_writing`, `_holders`) and
        then reads `_fd`; the thread that closes it first hides `_fd` and then reads
        the announcements. One of the two always sees the other, so `write`
        needs no lock.
Rule 3: a map is never closed explicitly. It ends with the last view of it.

`os_files` manages names and folders.
"""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import islice

from qanat.adapters import page_cache
from qanat.adapters.os_errors import storage_error
from qanat.log.files import Buffer
from qanat.model.errors import StorageError

_IOV_MAX = os.sysconf("SC_IOV_MAX")
_CLOSED = -1
_NOTHING = memoryview(b"")
_AHEAD_BYTES = 64 * 1024 * 1024
"""How far ahead a file is mapped that has grown since its last map; costs address space, no memory."""


class OsFile:
    """A file under a path, made by `OsFiles.open`. One thread at a time writes and takes views."""

    __slots__ = (
        "_address",
        "_descriptors",
        "_fd",
        "_forget",
        "_holders",
        "_is_closed",
        "_is_dirty",
        "_is_nameless",
        "_is_used",
        "_is_writing",
        "_rename",
        "_seen_size",
        "_view",
        "path",
    )

    def __init__(
        self,
        path: str,
        descriptors: Descriptors,
        rename: Callable[[str, str], None],
        forget: Callable[[OsFile], None],
    ) -> None:
        self.path = path
        self._descriptors = descriptors
        self._rename = rename
        self._forget = forget
        self._fd = _CLOSED
        self._view = _NOTHING
        self._seen_size = 0
        """The file had at least as many bytes when it was last checked or written; `_view` may be longer."""
        self._address = 0
        self._is_used = True
        self._is_writing = False
        self._is_dirty = False
        self._is_nameless = False
        self._is_closed = False
        self._holders = 0

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "idle" if self._fd == _CLOSED else f"fd={self._fd}"
        return f"<OsFile {self.path} {state}{' unsynced' if self._is_dirty else ''}>"

    @property
    def key_id(self) -> None:
        """Nothing is encrypted here."""
        return

    def size(self) -> int:
        try:
            with self._descriptors.lock:
                if self._fd != _CLOSED:
                    return os.fstat(self._fd).st_size
                assert not self._is_closed, f"{self.path} is used after close"
                return os.stat(self.path).st_size
        except OSError as error:
            raise storage_error("stat", self.path, error) from error

    def write(self, chunks: Sequence[Buffer], position: int) -> int:
        self._is_writing = self._is_used = True
        try:
            fd = self._fd
            if fd == _CLOSED:
                fd = self._descriptors.open(self)
            if len(chunks) == 1:
                length = len(chunks[0])
                written = os.pwrite(fd, chunks[0], position)
            else:
                length = sum(map(len, chunks))
                written = os.pwritev(fd, chunks if len(chunks) <= _IOV_MAX else chunks[:_IOV_MAX], position)
            if written != length:
                _write_rest(fd, chunks, position, written)
            if position + length > self._seen_size:
                self._seen_size = position + length
            return length
        except OSError as error:
            raise storage_error("write", self.path, error) from error
        finally:
            # Dirty only now: a `sync` that ran during this write may have missed its bytes.
            self._is_dirty = True
            self._is_writing = False

    def truncate(self, length: int) -> None:
        fd = self._descriptors.hold(self)
        try:
            self._view = _NOTHING
            self._seen_size = 0
            os.ftruncate(fd, length)
        except OSError as error:
            raise storage_error("truncate", self.path, error) from error
        finally:
            self._is_dirty = True
            self._descriptors.release(self)

    def read(self, position: int, length: int) -> bytearray:
        fd = self._descriptors.hold(self)
        try:
            # A damaged length may request gigabytes: allocate no more than there is to read.
            available = os.fstat(fd).st_size - position
            return _read(fd, position, max(0, min(length, available)))
        except OSError as error:
            raise storage_error("read", self.path, error) from error
        finally:
            self._descriptors.release(self)

    def view(self, length: int) -> memoryview:
        self._is_used = True
        if length > self._seen_size:
            self._look(length)
        view = self._view
        if length > len(view):
            view = self._map(length)
        return view[:length]

    def _look(self, length: int) -> None:
        """Check that the file has as many bytes: touching a map past the file's end would kill the process."""
        size = self.size()
        if length > size:
            raise StorageError(f"{self.path} has {size} bytes where {length} are expected: truncated from outside")
        self._seen_size = size

    def _map(self, length: int) -> memoryview:
        fd = self._descriptors.hold(self)
        try:
            ahead_bytes = _AHEAD_BYTES if len(self._view) else 0
            self._view = _NOTHING
            self._look(length)
            view = memoryview(self._descriptors.map(fd, self._seen_size, ahead_bytes))
            self._address = page_cache.address_of(view)
            self._view = view
            return view
        except OSError as error:
            raise storage_error("map", self.path, error) from error
        finally:
            self._descriptors.release(self)

    def is_resident(self, position: int, length: int) -> bool:
        view = self.view(position + length)
        # The view keeps the map behind `_address` in place, even if it is replaced just now.
        return len(view) == 0 or page_cache.is_resident(self._address, position, length)

    def sync(self) -> None:
        fd = self._descriptors.hold(self)
        try:
            self._is_dirty = False
            os.fdatasync(fd)
        except OSError as error:
            self._is_dirty = True
            raise storage_error("sync", self.path, error) from error
        finally:
            self._descriptors.release(self)

    def drop_cache(self) -> None:
        fd = self._descriptors.hold(self)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError as error:
            raise storage_error("reread", self.path, error) from error
        finally:
            self._descriptors.release(self)

    def rename(self, path: str) -> None:
        assert not self._is_nameless, f"{self.path} was removed or replaced: there is no name left to change"
        self._rename(self.path, path)

    def close(self) -> None:
        if self._is_closed:
            return
        self._forget(self)
        fd = self._descriptors.withdraw(self)
        self._view = _NOTHING
        if fd == _CLOSED:
            return
        try:
            os.close(fd)
        except OSError as error:
            raise storage_error("close", self.path, error) from error


class Descriptors:
    """At most `max_open` descriptors for all files together; a map costs one too (Python duplicates its file's).

    Files whose descriptor must stay open (rule 1) may exceed the bound,
    as may maps that still have views.
    """

    def __init__(self, max_open: int) -> None:
        assert max_open >= 2, "a file and its map need two descriptors"
        self.lock = threading.Lock()
        self._max_open = max_open
        self._open: OrderedDict[OsFile, None] = OrderedDict()
        self._maps: set[weakref.ref[mmap.mmap]] = set()

    def __len__(self) -> int:
        return len(self._open) + len(self._maps)

    def open(self, file: OsFile) -> int:
        """The file's descriptor, opened if need be."""
        with self.lock:
            return self._opened(file)

    def add(self, file: OsFile, flags: int) -> None:
        """Open a file with flags of its own (to create it)."""
        with self.lock:
            self._opened(file, flags)

    def hold(self, file: OsFile) -> int:
        """The file's descriptor, which stays open until `release`."""
        with self.lock:
            fd = self._opened(file)
            file._is_used = True
            file._holders += 1
            return fd

    def release(self, file: OsFile) -> None:
        with self.lock:
            file._holders -= 1

    def map(self, fd: int, size: int, ahead_bytes: int) -> mmap.mmap:
        """Map a whole file for reading, and as much again as it may soon grow."""
        with self.lock:
            self._make_room()
            if ahead_bytes:
                mapped = page_cache.map_growing(fd, size, ahead_bytes)
            else:
                mapped = mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
            self._maps.add(weakref.ref(mapped, self._maps.discard))
            return mapped

    def withdraw(self, file: OsFile) -> int:
        """Remove a file for good; the caller closes its descriptor, if it had one."""
        with self.lock:
            fd, file._fd = file._fd, _CLOSED
            file._is_closed = True
            self._open.pop(file, None)
            return fd

    def lose_name(self, file: OsFile) -> None:
        """Keep a file whose name goes away: from here on its descriptor is the only way to it. Needs the lock."""
        if os.path.exists(file.path):
            self._opened(file)
        file._is_nameless = True

    def regain_name(self, file: OsFile) -> None:
        """The name did not go away after all. Needs the lock."""
        file._is_nameless = False

    def _opened(self, file: OsFile, flags: int = os.O_RDWR) -> int:
        if file._fd == _CLOSED:
            assert not file._is_closed, f"{file.path} is used after close"
            assert not file._is_nameless, f"{file.path} was removed from outside"
            self._make_room()
            try:
                file._fd = os.open(file.path, flags, 0o644)
            except OSError as error:
                raise storage_error("open", file.path, error) from error
            self._open[file] = None
        return file._fd

    def _make_room(self) -> None:
        while len(self) >= self._max_open and self._give_up_one():
            pass

    def _give_up_one(self) -> bool:
        for _ in range(2 * len(self._open)):
            file = next(iter(self._open))
            self._open.move_to_end(file)
            if file._is_used:
                file._is_used = False
            elif self._give_up(file):
                return True
        return False

    def _give_up(self, file: OsFile) -> bool:
        fd, file._fd = file._fd, _CLOSED
        if file._is_writing or file._is_dirty or file._is_nameless or file._holders:
            file._fd = fd
            return False
        del self._open[file]
        file._view = _NOTHING
        try:
            os.close(fd)
        except OSError as error:
            raise storage_error("close", file.path, error) from error
        return True


def _write_rest(fd: int, chunks: Sequence[Buffer], position: int, written: int) -> None:
    """Continue after a short write (or after the first `_IOV_MAX` chunks) until all is written."""
    rest = [memoryview(chunk) for chunk in chunks]
    first = 0
    position += written
    while True:
        while first < len(rest) and written >= len(rest[first]):
            written -= len(rest[first])
            first += 1
        if first == len(rest):
            return
        rest[first] = rest[first][written:]
        written = os.pwritev(fd, list(islice(rest, first, first + _IOV_MAX)), position)
        position += written


def _read(fd: int, position: int, length: int) -> bytearray:
    buffer = bytearray(length)
    done = 0
    with memoryview(buffer) as target:
        while done < length:
            count = os.preadv(fd, [target[done:]], position + done)
            if count == 0:
                break
            done += count
    del buffer[done:]
    return buffer

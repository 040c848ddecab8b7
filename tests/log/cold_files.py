"""Files whose pages are in memory only once they are read or written, and that know the calling thread.

What is not in memory shows as rubbish through a view, on whatever thread it is touched: a page fault there would
stall everybody. Whatever else waits for the disk is noted when the event loop does it.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from qanat.log.files import Buffer, File, Files, Lock

PAGE_BYTES = 64
_RUBBISH = b"\xee" * PAGE_BYTES


class ColdFiles:
    """Another's files, cold."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.warm: dict[str, set[int]] = {}
        """Pages in memory, by path."""
        self.loop_thread = 0
        """The thread that must not wait; none for 0."""
        self.waits: builtins.list[str] = []
        """What that thread has waited for."""

    def watch(self) -> None:
        """From here on the calling thread is the loop's, and nothing is in memory."""
        self.loop_thread = threading.get_ident()
        self.chill()

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """Inside, the test itself may wait for the disk."""
        self.loop_thread, watched = 0, self.loop_thread
        try:
            yield
        finally:
            self.loop_thread = watched

    def chill(self) -> None:
        for pages in self.warm.values():
            pages.clear()

    def note(self, act: str, path: str) -> None:
        if threading.get_ident() == self.loop_thread:
            self.waits.append(f"{act} {path}")

    def open(self, path: str, *, create: bool = False) -> ColdFile:
        if not create:
            self.note("open", path)
        return ColdFile(self, self.files.open(path, create=create))

    def exists(self, path: str) -> bool:
        self.note("exists", path)
        return self.files.exists(path)

    def list(self, path: str) -> builtins.list[str]:
        self.note("list", path)
        return self.files.list(path)

    def make_directory(self, path: str) -> None:
        self.note("make", path)
        self.files.make_directory(path)

    def remove_directory(self, path: str) -> None:
        self.note("remove", path)
        self.files.remove_directory(path)

    def rename(self, old: str, new: str) -> None:
        self.note("rename", old)
        self.files.rename(old, new)

    def remove(self, path: str) -> None:
        self.note("remove", path)
        self.files.remove(path)

    def sync_directory(self, path: str) -> None:
        self.note("sync", path)
        self.files.sync_directory(path)

    def lock(self, path: str) -> Lock:
        return self.files.lock(path)


class ColdFile:
    """One of them."""

    def __init__(self, files: ColdFiles, file: File) -> None:
        self._files = files
        self._file = file
        self._pages = files.warm.setdefault(file.path, set())

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def key_id(self) -> str | None:
        return self._file.key_id

    def size(self) -> int:
        return self._file.size()

    def write(self, chunks: Sequence[Buffer], position: int) -> int:
        written = self._file.write(chunks, position)
        self._pages.update(_pages(position, written))
        return written

    def read(self, position: int, length: int) -> bytearray:
        self._files.note("read", self.path)
        content = self._file.read(position, length)
        self._pages.update(_pages(position, len(content)))
        return content

    def view(self, length: int) -> memoryview:
        content = bytearray(self._file.view(length))
        for page in _pages(0, length):
            if page not in self._pages:
                content[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = _RUBBISH
        return memoryview(bytes(content[:length]))

    def is_resident(self, position: int, length: int) -> bool:
        return self._pages.issuperset(_pages(position, length))

    def truncate(self, length: int) -> None:
        self._file.truncate(length)

    def sync(self) -> None:
        self._files.note("sync", self.path)
        self._file.sync()

    def drop_cache(self) -> None:
        self._file.drop_cache()

    def rename(self, path: str) -> None:
        self._files.note("rename", path)
        self._file.rename(path)
        self._files.warm[path] = self._pages

    def close(self) -> None:
        self._file.close()


def _pages(position: int, length: int) -> Iterable[int]:
    return range(position // PAGE_BYTES, -(-(position + length) // PAGE_BYTES)) if length > 0 else ()

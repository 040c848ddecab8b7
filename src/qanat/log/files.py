"""The port to the disk: everything that the log asks of a file system.

Adapters: `adapters.os_files` (real), `adapters.memory_files` (volatile),
`testing.simulation.disk` (seeded faults). Each passes the same contract suite.

Rule 1: bytes under a map are never rewritten nor cut off. A file only grows,
        or is replaced by another through `rename`; a map taken before keeps
        showing the old file for as long as somebody holds it.
Rule 2: nothing is durable before `sync` of the file *and*, for a new, renamed
        or removed name, `sync_directory` of its folder.
Rule 3: a failed `sync` is final. Nobody calls it again on the same file and
        believes the answer (the kernel marks failed pages clean).
Rule 4: faults leave here as `StorageError`s, never as `OSError`.
Rule 5: a handle means one file until it is closed. It follows a rename of the file
        or of a folder above it, and goes on reading and writing a file whose name
        was removed or given to another.
Rule 6: one thread at a time writes a file and takes views of it. `sync` and `read`
        may run beside that on a worker, as may everything that `Files` offers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """One open file, to be closed by its owner.

    Its descriptor may be closed and reopened behind the scenes, but never between
    a write and its sync. Using a closed file is a bug, hence an assertion.
    """

    @property
    def path(self) -> str: ...

    @property
    def key_id(self) -> str | None:
        """Which key the bytes on the disk are encrypted with; None where they lie there as they are.

        What goes in and out of this port is plain either way, positions and sizes as well
        (docs/internals/encryption-at-rest.md).
        """
        ...

    def size(self) -> int:
        """Bytes in the file now."""
        ...

    def write(self, chunks: Sequence[Buffer], position: int) -> int:
        """Write all chunks (of bytes) one after another from `position` on; return the bytes written.

        Writes everything or raises: a short write is continued, and where that
        fails the caller must treat the bytes from `position` on as garbage. A gap
        between the end of the file and `position` reads as zeros.
        """
        ...

    def read(self, position: int, length: int) -> bytearray:
        """Copy out up to `length` bytes; shorter only at the end of the file."""
        ...

    def view(self, length: int) -> memoryview:
        """A read-only view of the first `length` bytes; `StorageError` where there are fewer.

        Stays valid, and unchanged, whatever happens to the name afterwards (rule 1).
        Bytes that a view has shown must not be written again.
        """
        ...

    def is_resident(self, position: int, length: int) -> bool:
        """Whether touching that range of a view would not wait for the disk."""
        ...

    def cut(self, length: int) -> None:
        """Drop the bytes from `length` on. No view may ever have shown them (rule 1): the rest of a
        write that failed, or a torn tail found while opening. Durable with the next `sync`."""
        ...

    def sync(self) -> None:
        """Make the bytes durable (fdatasync). May be called from a worker thread."""
        ...

    def forget_cache(self) -> None:
        """Let go of what memory holds of the file, after a `sync` that succeeded: what is read from now on lies on the
        disk. Bytes that an earlier sync failed to write look written until then (rule 3)."""
        ...

    def rename(self, path: str) -> None:
        """Give the file another name, replacing whatever has it. This handle follows."""
        ...

    def close(self) -> None:
        """Let the handle go. Views stay valid. Closing twice is fine."""
        ...


class Lock(Protocol):
    """An exclusive claim on a path; gone with the process at the latest."""

    def release(self) -> None: ...


class Files(Protocol):
    """A file system. Paths are absolute or relative to the process, with `/`."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; `create` makes a new, empty file (replacing any old one)."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Names in a folder, sorted."""
        ...

    def make_directory(self, path: str) -> None:
        """Create a folder and its parents; an existing one is fine. Parents are made durable too."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty folder; a missing one is fine."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file or folder, replacing a file that has the new name."""
        ...

    def remove(self, path: str) -> None:
        """Unlink a file; a missing one is fine. Its open views stay valid."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make the names in a folder durable."""
        ...

    def lock(self, path: str) -> Lock:
        """Claim a path (a lock file, which is created and stays) once, or raise `DirectoryLockedError`."""
        ...

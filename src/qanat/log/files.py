"""The port to the disk: everything that the log needs from a file system.

Adapters: `adapters.os_files` (real), `adapters.memory_files` (volatile),
`testing.simulation.disk` (seeded faults). Each passes the same contract suite.

Rule 1: bytes under a map are never rewritten or truncated. A file only grows,
        or `rename` replaces it by another; a map taken before the rename shows
        the old file for as long as a caller holds it.
Rule 2: nothing is durable before `sync` of the file *and*, for a new, renamed
        or removed name, `sync_directory` of its folder.
Rule 3: a failed `sync` is final. No caller syncs the same file again and trusts
        the answer (the kernel marks failed pages clean).
Rule 4: adapters raise `StorageError`s, never `OSError`.
Rule 5: a handle means one file until it is closed. It follows a rename of the file
        or of a folder above it. It still reads and writes a file whose name was
        removed or given to another file.
Rule 6: one thread at a time writes a file and takes views of it. `sync` and `read`
        may run on a worker meanwhile, as may everything that `Files` offers.
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
        """The key that encrypts the bytes on the disk; None where they are not encrypted.

        Data that passes through this port is unencrypted either way, and so are positions and sizes
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

    def truncate(self, length: int) -> None:
        """Truncate the file to `length` bytes. No view may ever have shown the bytes that go (rule 1): the rest of
        a failed write, or a torn tail found while opening. Durable with the next `sync`."""
        ...

    def sync(self) -> None:
        """Make the bytes durable (fdatasync). May be called from a worker thread."""
        ...

    def drop_cache(self) -> None:
        """Drop the file from the page cache, after a `sync` that succeeded: later reads come from the disk.
        Until then, bytes that an earlier sync failed to write look written (rule 3)."""
        ...

    def rename(self, path: str) -> None:
        """Rename the file, replacing any file of that name. This handle follows."""
        ...

    def close(self) -> None:
        """Close the handle. Views stay valid. Closing twice is fine."""
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

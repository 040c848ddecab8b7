"""A recorded SQLite database: a VFS that reports writes and syncs to the recorded disk.

It records the database, its rollback journal and its write-ahead log. It does not record the shared memory: that is
lost with the machine, and SQLite rebuilds it from the log.
"""

# ruff: noqa: N802 - the names are SQLite's

from __future__ import annotations

import os
from typing import Any

import apsw

from qanat.testing.simulation.disk import SimFile
from verify.restart.recorded_disk import RecordedDisk

_RECORDED = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL
_SYNCS_ITS_NAME = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL
"""Files whose folder SQLite syncs with the first sync of their bytes, when they are new."""


class RecordedVfs(apsw.VFS):
    """SQLite's own VFS, recorded. `close` unregisters it."""

    def __init__(self, disk: RecordedDisk, name: str) -> None:
        self.disk = disk
        self.name = name
        super().__init__(name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None or not flags[0] & _RECORDED:
            return apsw.VFSFile("", name, flags)
        with self.disk.lock:
            return RecordedVfsFile(self.disk, name, path, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        with self.disk.lock:
            super().xDelete(filename, syncdir)
            self.disk.shadow.remove(filename)
            if syncdir:
                self.disk.shadow.sync_directory(os.path.dirname(filename))

    def close(self) -> None:
        self.unregister()


class RecordedVfsFile(apsw.VFSFile):
    """One of the database's files."""

    def __init__(self, disk: RecordedDisk, name: Any, path: str, flags: list[int]) -> None:
        is_new = not os.path.exists(path)
        super().__init__("", name, flags)
        self._disk = disk
        self._folder = os.path.dirname(path)
        self._shadow: SimFile = disk.shadow.open(path, create=is_new)
        self._has_new_name = is_new and bool(flags[0] & _SYNCS_ITS_NAME)

    def xWrite(self, data: bytes, offset: int) -> None:
        with self._disk.lock:
            super().xWrite(data, offset)
            self._shadow.write((bytes(data),), offset)

    def xTruncate(self, newsize: int) -> None:
        with self._disk.lock:
            super().xTruncate(newsize)
            self._shadow.truncate(newsize)

    def xSync(self, flags: int) -> None:
        if self._has_new_name:
            self._has_new_name = False
            with self._disk.syncing(self._shadow), self._disk.syncing_folder(self._folder):
                super().xSync(flags)
        else:
            with self._disk.syncing(self._shadow):
                super().xSync(flags)

    def xClose(self) -> None:
        super().xClose()
        self._shadow.close()

"""The operating system's files, behind the port `log.files`.

Rule 1: a name never truncates or overwrites a file in place: `create` and `rename`
        put a new file there, and handles and views of the old one still show it.
Rule 2: a handle follows its file through `rename`, also when a folder above it is renamed.
Rule 3: the owner closes a handle; until then it is registered here.

`os_file` reads and writes one file.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import fcntl
import os
import stat

from qanat.adapters.os_errors import storage_error
from qanat.adapters.os_file import Descriptors, OsFile
from qanat.model.errors import DirectoryLockedError, StorageError


class OsFiles:
    """The file system of this machine; at most `max_open` descriptors stay open."""

    def __init__(self, max_open: int = 4096) -> None:
        self._descriptors = Descriptors(max_open)
        self._handles: dict[str, builtins.list[OsFile]] = {}

    def __repr__(self) -> str:
        handles = sum(map(len, self._handles.values()))
        return f"<OsFiles {handles} handles, {len(self._descriptors)} descriptors>"

    def open(self, path: str, *, create: bool = False) -> OsFile:
        path = os.path.abspath(path)
        file = OsFile(path, self._descriptors, self.rename, self._forget)
        if create:
            self.remove(path)
            self._descriptors.add(file, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        else:
            _require_file(path)
        with self._descriptors.lock:
            self._handles.setdefault(path, []).append(file)
        return file

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list(self, path: str) -> builtins.list[str]:
        try:
            return sorted(os.listdir(path))
        except OSError as error:
            raise storage_error("list", path, error) from error

    def make_directory(self, path: str) -> None:
        missing = []
        path = os.path.abspath(path)
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for folder in reversed(missing):
            try:
                os.mkdir(folder)
            except FileExistsError as error:
                if not os.path.isdir(folder):
                    raise storage_error("create folder", folder, error) from error
            except OSError as error:
                raise storage_error("create folder", folder, error) from error
            self.sync_directory(os.path.dirname(folder))

    def remove_directory(self, path: str) -> None:
        try:
            os.rmdir(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise storage_error("remove folder", path, error) from error

    def rename(self, old: str, new: str) -> None:
        old, new = os.path.abspath(old), os.path.abspath(new)
        # Under the lock, so that no thread reopens a file by a name that is just changing.
        with self._descriptors.lock:
            replaced = self._lose_name(new) if old != new else []
            try:
                os.rename(old, new)
            except OSError as error:
                self._regain_name(new, replaced)
                raise storage_error(f"rename to {new} the file", old, error) from error
            self._follow(old, new)

    def remove(self, path: str) -> None:
        path = os.path.abspath(path)
        with self._descriptors.lock:
            nameless = self._lose_name(path)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            with self._descriptors.lock:
                self._regain_name(path, nameless)
            raise storage_error("remove", path, error) from error

    def sync_directory(self, path: str) -> None:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise storage_error("sync folder", path, error) from error

    def lock(self, path: str) -> OsLock:
        return OsLock(os.path.abspath(path))

    def _lose_name(self, path: str) -> builtins.list[OsFile]:
        files = self._handles.pop(path, [])
        for file in files:
            self._descriptors.lose_name(file)
        return files

    def _regain_name(self, path: str, files: builtins.list[OsFile]) -> None:
        if files:
            self._handles[path] = files
            for file in files:
                self._descriptors.regain_name(file)

    def _follow(self, old: str, new: str) -> None:
        """Update the path of handles at or under `old`."""
        moved = [old] if old in self._handles else []
        if os.path.isdir(new):
            moved = [path for path in self._handles if path.startswith(old + os.sep)]
        for path in moved:
            files = self._handles.pop(path)
            path = new + path[len(old) :]
            self._handles[path] = files
            for file in files:
                file.path = path

    def _forget(self, file: OsFile) -> None:
        with self._descriptors.lock:
            files = self._handles.get(file.path, [])
            if file in files:
                files.remove(file)
                if not files:
                    del self._handles[file.path]


class OsLock:
    """A lock file, held by `flock`: the kernel drops the lock with the process. The file stays."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise storage_error("open", path, error) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = _owner(fd)
            os.close(fd)
            if error.errno == errno.EWOULDBLOCK:
                raise DirectoryLockedError(
                    f"{os.path.dirname(path)} is in use by {owner}; stop that one or choose another data directory"
                ) from error
            raise storage_error("lock", path, error) from error
        self._fd = fd
        # The process id is for people; a full disk must not keep a broker from starting and freeing it.
        with contextlib.suppress(OSError):
            os.ftruncate(fd, 0)
            os.pwrite(fd, b"%d\n" % os.getpid(), 0)

    def __repr__(self) -> str:
        return f"<OsLock {self._path} {'held' if self._fd >= 0 else 'released'}>"

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _owner(lock_fd: int) -> str:
    """The process whose id is in the lock file, in words."""
    with contextlib.suppress(OSError, ValueError):
        pid = int(os.pread(lock_fd, 32, 0))
        return "this process" if pid == os.getpid() else f"process {pid}"
    return "another process"


def _require_file(path: str) -> None:
    """Descriptors are opened on first use, but a missing file is reported at once."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise storage_error("open", path, error) from error
    if not stat.S_ISREG(mode):
        raise StorageError(f"cannot open {path}: it is no regular file; move it away")

"""Errors of SQLite: an `apsw.Error` becomes a `StoreUnavailableError`, once, here.

The message is one sentence for a person: what failed, where, why, what to do.
"""

from __future__ import annotations

import apsw

from qanat.model.errors import StoreUnavailableError

OLDEST_SQLITE = (3, 51, 3)
"""Older ones can corrupt a database in WAL mode that several connections write (fixed in 3.51.3)."""

_REMEDIES: tuple[tuple[type[apsw.Error], str], ...] = (
    (apsw.FullError, "the disk is full; free some space, the broker goes on by itself"),
    (apsw.ReadOnlyError, "it cannot be written; check the owner and mode of the file, its folder and the file system"),
    (apsw.PermissionsError, "access is denied; check the owner and mode of the file and its folder"),
    (apsw.CantOpenError, "it cannot be opened; check that its folder exists and can be written (user, file system)"),
    (apsw.CorruptError, "it is damaged; stop all brokers of this host and restore it from a backup"),
    (apsw.NotADBError, "it is not an SQLite database; move it away or name another file"),
    (apsw.BusyError, "another process held its lock for too long; look for a stuck broker or an open sqlite3 shell"),
    (apsw.LockedError, "another process held its lock for too long; look for a stuck broker or an open sqlite3 shell"),
    (apsw.IOError, "the file system failed; check the kernel log, the file size limit (ulimit -f) and the quota"),
)

_SYNC_FAILURES = (apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC)


def store_error(act: str, path: str, error: apsw.Error) -> StoreUnavailableError:
    """The error for `error`, which occurred when trying to `act` (a verb) on the store at `path`."""
    for kind, remedy in _REMEDIES:
        if isinstance(error, kind):
            return StoreUnavailableError(f"cannot {act} the metadata store {path}: {remedy} ({error})")
    return StoreUnavailableError(f"cannot {act} the metadata store {path}: {error}")


def is_sync_failure(error: apsw.Error) -> bool:
    """Whether an fsync failed: the kernel marks the lost pages clean, so nothing after it can be trusted."""
    return getattr(error, "extendedresult", 0) in _SYNC_FAILURES


def check_library(version: str) -> None:
    """Refuse an SQLite that is known to lose data."""
    if tuple(int(part) for part in version.split(".")[:3]) < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise StoreUnavailableError(
            f"SQLite {version} can damage a database that several processes write; install apsw {oldest} or newer"
        )

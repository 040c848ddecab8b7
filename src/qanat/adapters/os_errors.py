"""Errors of the operating system: an `OSError` becomes a `StorageError`, once, here.

The message is one sentence for a person: what failed, where, why, what to do.
"""

from __future__ import annotations

import errno

from qanat.model.errors import DiskFullError, ReadOnlyError, StorageError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


def storage_error(act: str, path: str, error: OSError) -> StorageError:
    """The error for `error`, which occurred when trying to `act` (a verb) on `path`."""
    cause = f"cannot {act} {path}: {error.strerror or error}"
    # A failed sync is final whatever its reason (`log.files`, rule 3): space can be freed, lost pages cannot.
    if error.errno in _FULL and not act.startswith("sync"):
        return DiskFullError(f"{cause}; free some space or lower the retention; it goes on when there is room")
    if error.errno in _FORBIDDEN:
        return ReadOnlyError(f"{cause}; make it writable for this user and check how its file system is mounted")
    if error.errno in _OUT_OF_DESCRIPTORS:
        return StorageError(f"{cause}; raise the limit on open files (ulimit -n)")
    if error.errno == errno.EIO:
        return StorageError(f"{cause}; the device is failing, check the kernel log before using it again")
    return StorageError(cause)

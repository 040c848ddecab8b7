"""An SQLite database that several processes share: opened safely, used in transactions. For one thread.

Rule 1: WAL with synchronous=FULL: a commit that returned is on disk.
Rule 2: a writing transaction takes the write lock at its beginning.
Rule 3: after a failed fsync nothing more is accepted (the kernel marks lost pages clean).
Rule 4: only the opening is retried; errors leave as `StoreUnavailableError`.
Rule 5: a new database is readable by its owner only, and so are the `-wal` and `-shm` that SQLite makes beside it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import apsw

from qanat.adapters.sqlite_errors import check_library, is_sync_failure, store_error
from qanat.model.errors import StoreUnavailableError

SqliteValue = None | int | float | str | bytes

_OPEN_RETRY_SECONDS = 0.01
_PRIVATE = 0o600


class SqliteDatabase:
    """One connection to one file."""

    def __init__(self, path: str, *, busy_timeout_ms: int, vfs: str | None = None) -> None:
        """`vfs` names a file system of SQLite other than the default."""
        check_library(apsw.sqlite_lib_version())
        self.path = path
        self._failure: str | None = None
        if not vfs:
            _create_private(path)
        with self._translated("open"):
            self._connection = apsw.Connection(path, vfs=vfs)
            self._connection.set_busy_timeout(busy_timeout_ms)
            self._switch_to_wal(busy_timeout_ms)
            self._connection.execute("PRAGMA synchronous = FULL")

    def prepare(self, schema: str, version: int) -> None:
        """Make the tables of a new database; refuse one that another version of the program made."""
        with self.writing():
            ((found,),) = self.rows("PRAGMA user_version")
            if found == 0:
                self.rows(schema)
                self.rows(f"PRAGMA user_version = {version}")
            elif found != version:
                raise StoreUnavailableError(
                    f"the metadata store {self.path} has format {found} and this version of Qanat reads {version}; "
                    "start the version that wrote it"
                )

    def close(self) -> None:
        """Close; the last process also folds the write-ahead log into the database."""
        with self._translated("close"):
            self._connection.close()

    def rows(self, statement: str, values: tuple[SqliteValue, ...] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values).fetchall()

    def changes(self) -> int:
        """Rows that the last statement changed."""
        return self._connection.changes()

    def seen(self) -> int:
        """A number that changes when another connection has written: one read of shared memory."""
        with self._translated("read"):
            ((version,),) = self.rows("PRAGMA data_version")
            return int(version)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """All reads inside see one state."""
        with self._translated("read"):
            self.rows("BEGIN")
            try:
                yield
            finally:
                self._leave()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One atomic transaction."""
        if self._failure is not None:
            raise StoreUnavailableError(self._failure)
        with self._translated("write"):
            self.rows("BEGIN IMMEDIATE")
            try:
                yield
                self.rows("COMMIT")
            finally:
                self._leave()

    def _leave(self) -> None:
        """Roll back an open transaction; some errors have done so by themselves."""
        if self._connection.in_transaction:
            self.rows("ROLLBACK")

    @contextmanager
    def _translated(self, act: str) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            fault = store_error(act, self.path, error)
            if is_sync_failure(error):
                self._failure = f"{fault}; nothing more is accepted until the broker is restarted"
            raise fault from error

    def _switch_to_wal(self, timeout_ms: int) -> None:
        """SQLite does not wait for the lock that this needs when another process does the same, so we do."""
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            try:
                self.rows("PRAGMA journal_mode = WAL")
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_OPEN_RETRY_SECONDS)
            else:
                return


def _create_private(path: str) -> None:
    """Create the file where there is none; one that is there keeps its mode.

    `mknod` opens nothing: closing a descriptor of a database would drop the locks that this process has on it.
    """
    with suppress(OSError):  # It is there, or SQLite reports what is wrong.
        os.mknod(path, _PRIVATE | stat.S_IFREG)

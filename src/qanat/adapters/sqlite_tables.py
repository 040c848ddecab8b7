"""The metadata store's tables in SQLite, and every statement on them. Synchronous; used by one thread.

    store     one row: the current revision, and the revision up to which history was removed
    entries   the current keys
    history   events for watchers; the oldest revisions are removed
    leases    the deadlines of leases, by the clock of one boot of this host

Every change is one transaction of `sqlite_database` that has the write lock from its beginning, so what it
compares cannot change before it writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any, assert_never

from qanat.adapters.boot_clock import BootClock
from qanat.adapters.kept_lease import RENEWALS_PER_LIFE
from qanat.adapters.sqlite_database import SqliteDatabase, SqliteValue
from qanat.cluster.store import (
    EMPTY_REVISION,
    Changes,
    Committed,
    Compacted,
    Compare,
    Delete,
    DeletePrefix,
    Entry,
    Event,
    EventKind,
    Lease,
    LeaseId,
    Operation,
    Put,
    Refused,
    Revision,
    Snapshot,
    holds,
)
from qanat.model.errors import LeaseExpiredError, StoreUnavailableError

FORMAT = 1
"""Stored in `user_version`; a database of a later format is refused."""
PAGE_EVENTS = 1_000
"""About how many events of history are read at once; never less than a whole revision."""

_SCHEMA = f"""
CREATE TABLE store (revision INTEGER NOT NULL, compacted_revision INTEGER NOT NULL);
INSERT INTO store VALUES ({EMPTY_REVISION}, 0);
CREATE TABLE entries (
    key TEXT PRIMARY KEY, value BLOB NOT NULL,
    create_revision INTEGER NOT NULL, mod_revision INTEGER NOT NULL, lease INTEGER
) WITHOUT ROWID;
CREATE INDEX entries_by_lease ON entries (lease) WHERE lease IS NOT NULL;
CREATE TABLE history (
    id INTEGER PRIMARY KEY, revision INTEGER NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
    create_revision INTEGER NOT NULL
);
CREATE INDEX history_by_revision ON history (revision);
CREATE TABLE leases (
    id INTEGER PRIMARY KEY AUTOINCREMENT, ttl_ms INTEGER NOT NULL, boot_id TEXT NOT NULL, deadline_ms INTEGER NOT NULL
);
"""

_ENTRY = "SELECT key, value, create_revision, mod_revision, lease FROM entries"
_EVENT = "SELECT kind, key, value, revision, create_revision FROM history"


class SqliteTables:
    """The port's operations in SQL."""

    def __init__(self, database: SqliteDatabase, clock: BootClock, history_events: int) -> None:
        self._database = database
        self._clock = clock
        self._history_events = history_events
        self._asked_ms: int | None = None
        """Since when we have waited to write, failed attempts included."""
        database.prepare(_SCHEMA, FORMAT)

    def close(self) -> None:
        self._database.close()

    # Reading.

    def get(self, key: str) -> Entry | None:
        with self._database.reading():
            return self._entry(key)

    def snapshot(self, prefix: str) -> Snapshot:
        with self._database.reading():
            return Snapshot(self._below(prefix), self._revision())

    def seen(self) -> int:
        """A number that changes when another connection has written: one read of shared memory."""
        return self._database.seen()

    def outlook(self) -> tuple[Revision, int | None]:
        """The revision, and when the next lease expires (those of an earlier boot have expired already)."""
        query = "SELECT revision, (SELECT MIN(CASE boot_id WHEN ? THEN deadline_ms ELSE 0 END) FROM leases) FROM store"
        with self._database.reading():
            revision, deadline_ms = self._rows(query, self._clock.boot_id)[0]
        return Revision(revision), deadline_ms

    def after(self, revision: Revision, prefix: str) -> tuple[tuple[Changes, ...], Revision] | Compacted:
        """One page of changes after a revision, and the revision up to which it is complete."""
        with self._database.reading():
            current, compacted = self._rows("SELECT revision, compacted_revision FROM store")[0]
            if revision > current:
                raise StoreUnavailableError(
                    f"the metadata store {self._database.path} is at revision {current} and has been at {revision}: "
                    "it was replaced by an older copy; restart the broker"
                )
            if revision < compacted:
                return Compacted(Revision(compacted))
            page = "SELECT revision FROM history WHERE revision > ? ORDER BY revision, id LIMIT 1 OFFSET ?"
            end = self._one(page, revision, PAGE_EVENTS - 1) or current
            query = f"{_EVENT} WHERE revision > ? AND revision <= ? AND key >= ? AND key < ? ORDER BY revision, id"
            rows = self._rows(query, revision, end, prefix, _prefix_end(prefix))
        events = [Event(EventKind(kind), *rest) for kind, *rest in rows]
        changes = tuple(Changes(at, tuple(group)) for at, group in groupby(events, key=lambda event: event.revision))
        return changes, Revision(end)

    # Writing.

    def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed | Refused:
        with self._writing():
            current = tuple(self._entry(compare.key) for compare in compares)
            if not all(map(holds, compares, current)):
                return Refused(current, self._revision())
            leases = [operation.lease for operation in operations if isinstance(operation, Put) and operation.lease]
            gone = [lease_id for lease_id in leases if not self._is_alive(lease_id)]
            if not gone:
                return Committed(self._change(operations))
        # Raised only here, so that the work of `_expire` is not rolled back.
        raise _lease_is_over(gone[0])

    def grant_lease(self, ttl_ms: int) -> Lease:
        with self._writing():
            statement = "INSERT INTO leases (ttl_ms, boot_id, deadline_ms) VALUES (?, ?, ?) RETURNING id"
            lease_id = self._one(statement, ttl_ms, self._clock.boot_id, self._clock.now_ms() + ttl_ms)
            return Lease(LeaseId(lease_id), ttl_ms)

    def keep_alive(self, lease: Lease) -> None:
        with self._writing():
            statement = "UPDATE leases SET deadline_ms = ? + ttl_ms WHERE id = ?"
            self._rows(statement, self._clock.now_ms(), lease.lease_id)
            is_alive = self._database.changes() == 1
        if not is_alive:
            raise _lease_is_over(lease.lease_id)

    def revoke(self, lease: Lease) -> None:
        with self._writing():
            self._end_lease(lease.lease_id)

    def expire_leases(self) -> None:
        with self._writing():
            pass

    # The parts of a transaction.

    def _change(self, operations: Sequence[Operation]) -> Revision:
        before = self._revision()
        revision = Revision(before + 1)
        changed = 0
        for operation in operations:
            match operation:
                case Put():
                    changed += self._put(operation, revision)
                case Delete():
                    changed += self._delete(revision, "key = ?", operation.key)
                case DeletePrefix():
                    changed += self._delete(
                        revision, "key >= ? AND key < ?", operation.prefix, _prefix_end(operation.prefix)
                    )
                case never:
                    assert_never(never)
        if not changed:
            return before
        self._rows("UPDATE store SET revision = ?", revision)
        self._prune(revision)
        return revision

    def _put(self, put: Put, revision: Revision) -> int:
        statement = """
            INSERT INTO entries VALUES (?1, ?2, ?3, ?3, ?4)
            ON CONFLICT (key) DO UPDATE SET value = ?2, mod_revision = ?3, lease = ?4 RETURNING create_revision"""
        created = self._one(statement, put.key, put.value, revision, put.lease)
        note = "INSERT INTO history (revision, kind, key, value, create_revision) VALUES (?, 'put', ?, ?, ?)"
        self._rows(note, revision, put.key, put.value, created)
        return 1

    def _delete(self, revision: Revision, which: str, *values: SqliteValue) -> int:
        """Remove entries in key order, and record it; returns how many there were."""
        note = "INSERT INTO history (revision, kind, key, value, create_revision)"
        self._rows(f"{note} SELECT ?, 'delete', key, x'', 0 FROM entries WHERE {which} ORDER BY key", revision, *values)
        self._rows(f"DELETE FROM entries WHERE {which}", *values)
        return self._database.changes()

    def _prune(self, revision: Revision) -> None:
        """Remove whole revisions, except this one, until no more events than the bound are left.

        Ids have no gaps: only the oldest are ever removed, and never all.
        """
        oldest, newest = self._rows("SELECT (SELECT MIN(id) FROM history), (SELECT MAX(id) FROM history)")[0]
        if newest - oldest + 1 <= self._history_events + self._history_events // 8:
            return
        found = self._one("SELECT revision FROM history WHERE id = ?", newest - self._history_events)
        last = min(found, revision - 1)
        self._rows("DELETE FROM history WHERE revision <= ?", last)
        self._rows("UPDATE store SET compacted_revision = MAX(compacted_revision, ?)", last)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction, which begins by ending expired leases."""
        if self._asked_ms is None:
            self._asked_ms = self._clock.now_ms()
        with self._database.writing():
            asked_ms, self._asked_ms = self._asked_ms, None
            self._forgive(asked_ms)
            self._expire()
            yield

    def _forgive(self, since_ms: int) -> None:
        """Extend leases that ran out while we waited for the lock: their owners waited for it as well."""
        now_ms = self._clock.now_ms()
        update = """UPDATE leases SET deadline_ms = ?1 + ttl_ms / ?2
            WHERE boot_id = ?3 AND deadline_ms BETWEEN ?4 AND ?1 AND ?1 - ?4 >= ttl_ms / ?2"""
        self._rows(update, now_ms, RENEWALS_PER_LIFE, self._clock.boot_id, since_ms)

    def _expire(self) -> None:
        due = "SELECT id FROM leases WHERE boot_id != ? OR deadline_ms <= ? ORDER BY deadline_ms, id"
        for (lease_id,) in self._rows(due, self._clock.boot_id, self._clock.now_ms()):
            self._end_lease(LeaseId(lease_id))

    def _end_lease(self, lease_id: LeaseId) -> None:
        self._rows("DELETE FROM leases WHERE id = ?", lease_id)
        revision = Revision(self._revision() + 1)
        if self._delete(revision, "lease = ?", lease_id):
            self._rows("UPDATE store SET revision = ?", revision)
            self._prune(revision)

    def _is_alive(self, lease_id: LeaseId) -> bool:
        return self._one("SELECT 1 FROM leases WHERE id = ?", lease_id) is not None

    def _rows(self, statement: str, *values: SqliteValue) -> list[tuple[Any, ...]]:
        return self._database.rows(statement, values)

    def _one(self, statement: str, *values: SqliteValue) -> Any:
        """The only value of the only row; `None` where there is no row."""
        rows = self._database.rows(statement, values)
        return rows[0][0] if rows else None

    def _entry(self, key: str) -> Entry | None:
        rows = self._rows(f"{_ENTRY} WHERE key = ?", key)
        return Entry(*rows[0]) if rows else None

    def _below(self, prefix: str) -> tuple[Entry, ...]:
        query = f"{_ENTRY} WHERE key >= ? AND key < ? ORDER BY key"
        return tuple(Entry(*row) for row in self._rows(query, prefix, _prefix_end(prefix)))

    def _revision(self) -> Revision:
        return Revision(self._one("SELECT revision FROM store"))


def _lease_is_over(lease_id: LeaseId) -> LeaseExpiredError:
    return LeaseExpiredError(f"lease {lease_id} is over; register again")


def _prefix_end(prefix: str) -> str:
    """The first string after all that start with `prefix`."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)

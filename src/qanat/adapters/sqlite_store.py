"""The metadata store in an SQLite file, shared by the broker processes of one host, behind the port `cluster.store`.

One thread with one connection does all work on the database: neither a lock that
another process holds, nor a slow fsync, ever blocks the event loop. The thread checks every `POLL_MS` whether another
process has written (`PRAGMA data_version`, some microseconds) and ends expired leases; writes
of this process wake its watchers at once.

A watcher has no queue. It reads history from its own position, so nothing is lost or repeated however slow it is; one
that falls behind the stored history gets `Compacted`.

Leases use the boot clock (`boot_clock`): changes of the system clock do nothing, a reboot ends them all. The thread
also renews leases, whatever the loop is busy with. Time in which no process could write because one
held the lock ends no lease: the next one to get the lock gives the others time to renew theirs.

The thread is in `sqlite_thread`, the statements are in `sqlite_tables`, transactions in `sqlite_database`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import TypeVar

from qanat.adapters.boot_clock import BootClock
from qanat.adapters.kept_lease import ThreadKeptLease
from qanat.adapters.sqlite_database import SqliteDatabase
from qanat.adapters.sqlite_tables import SqliteTables
from qanat.adapters.sqlite_thread import StoreThread
from qanat.cluster.store import (
    Changes,
    Committed,
    Compacted,
    Compare,
    Entry,
    Lease,
    Operation,
    Refused,
    Revision,
    Snapshot,
    check_commit,
    check_key,
)
from qanat.model.errors import StoreUnavailableError

POLL_MS = 100
"""How often to check for writes of other processes: the longest time that they stay unseen. After one it is more often.
A check takes the interpreter for 0.1 ms. Every 20 ms, one synchronous request in a hundred waited for it.
"""
BUSY_TIMEOUT_MS = 5_000
"""How long to wait for the lock of another process."""
HISTORY_EVENTS = 10_000
"""Events stored for watchers; an eighth more may gather before the oldest are removed."""

Result = TypeVar("Result")


class SqliteStore:
    """An open store, used from the loop on which it was opened."""

    def __init__(
        self,
        path: str,
        clock: BootClock,
        *,
        poll_ms: int,
        busy_timeout_ms: int,
        history_events: int,
        vfs: str | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._arrival = asyncio.Event()
        self._is_closed = False
        self._clock = clock
        self._thread = StoreThread(
            lambda: SqliteTables(SqliteDatabase(path, busy_timeout_ms=busy_timeout_ms, vfs=vfs), clock, history_events),
            clock,
            poll_ms,
            on_change=partial(loop.call_soon_threadsafe, self._notify_watchers),
        )

    @staticmethod
    async def open(
        path: str,
        *,
        clock: BootClock | None = None,
        poll_ms: int = POLL_MS,
        busy_timeout_ms: int = BUSY_TIMEOUT_MS,
        history_events: int = HISTORY_EVENTS,
        vfs: str | None = None,
    ) -> SqliteStore:
        """Open the file at `path`, or make it. Its folder must exist. `vfs` is SQLite's name of a file system."""
        store = SqliteStore(
            path,
            clock or BootClock.of_this_host(),
            poll_ms=poll_ms,
            busy_timeout_ms=busy_timeout_ms,
            history_events=history_events,
            vfs=vfs,
        )
        store._thread.start()
        try:
            await asyncio.wrap_future(store._thread.opened)
        except BaseException:
            await store.close()
            raise
        return store

    async def get(self, key: str) -> Entry | None:
        check_key(key)
        return await self._run(lambda tables: tables.get(key))

    async def list(self, prefix: str) -> Snapshot:
        check_key(prefix)
        return await self._run(lambda tables: tables.snapshot(prefix))

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed | Refused:
        check_commit(compares, operations)
        return await self._run(lambda tables: tables.commit(compares, operations), is_write=True)

    async def watch(self, prefix: str, after_revision: Revision) -> AsyncGenerator[Changes | Compacted, None]:
        check_key(prefix)
        while True:
            # Taken before history is read, so that a write in between wakes the watcher.
            arrival, start = self._arrival, after_revision
            found = await self._read_history(prefix, start)
            if isinstance(found, Compacted):
                yield found
                return
            page, after_revision = found
            for changes in page:
                yield changes
            if after_revision == start:
                await arrival.wait()

    async def grant_lease(self, ttl_ms: int) -> Lease:
        assert ttl_ms > 0, ttl_ms
        return await self._run(lambda tables: tables.grant_lease(ttl_ms), is_write=True)

    async def keep_alive(self, lease: Lease) -> None:
        await self._run(lambda tables: tables.keep_alive(lease), is_write=True)

    def keep(self, lease: Lease) -> ThreadKeptLease:
        kept = ThreadKeptLease(lease, self._clock.now_ms)
        self._thread.keep(kept)
        return kept

    async def revoke(self, lease: Lease) -> None:
        await self._run(lambda tables: tables.revoke(lease), is_write=True)

    async def expire_leases(self) -> None:
        """End expired leases. The store does so by itself; tests with their own clock call it."""
        await self._run(lambda tables: tables.expire_leases(), is_write=True)

    async def close(self) -> None:
        self._is_closed = True
        self._notify_watchers()
        await asyncio.shield(asyncio.wrap_future(self._thread.stop()))
        self._thread.join()

    async def _read_history(self, prefix: str, after: Revision) -> tuple[tuple[Changes, ...], Revision] | Compacted:
        return await self._run(lambda tables: tables.after(after, prefix))

    async def _run(self, act: Callable[[SqliteTables], Result], *, is_write: bool = False) -> Result:
        if self._is_closed:
            raise StoreUnavailableError("the metadata store is closed")
        return await asyncio.wrap_future(self._thread.submit(act, is_write=is_write))

    def _notify_watchers(self) -> None:
        self._arrival.set()
        self._arrival = asyncio.Event()

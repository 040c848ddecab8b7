"""The one thread that uses the metadata store's database.

It runs submitted work in order, and in between checks for writes of other processes, for expired
leases, and for leases to renew. It calls `on_change`, on this thread, whenever the
revision may have changed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TypeVar

from qanat.adapters.boot_clock import BootClock
from qanat.adapters.kept_lease import ThreadKeptLease
from qanat.adapters.sqlite_tables import SqliteTables
from qanat.cluster.store import NO_REVISION
from qanat.model.errors import LeaseExpiredError, StoreUnavailableError

RETRY_MS = 1_000
"""How long to leave the database alone after a check failed."""
EAGER_POLL_MS = 10
"""How often to check when another process has just written: more writes are likely to follow."""
EAGER_MS = 1_000
"""For how long, then."""

Result = TypeVar("Result")
_Act = Callable[[SqliteTables], None]


class StoreThread:
    """Started with `start`; ends after `stop`, when all submitted work is done."""

    def __init__(
        self,
        open_tables: Callable[[], SqliteTables],
        clock: BootClock,
        poll_ms: int,
        on_change: Callable[[], object],
    ) -> None:
        self.opened: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._open_tables = open_tables
        self._clock = clock
        self._poll_seconds = poll_ms / 1000
        self._eager_until = 0.0
        self._on_change = on_change
        self._acts: SimpleQueue[_Act | None] = SimpleQueue()
        # Marked as running, so that a waiter's cancellation does not reach the thread.
        for future in (self.opened, self._ended):
            future.set_running_or_notify_cancel()
        self._thread = threading.Thread(target=self._run, name="qanat-metadata-store", daemon=True)
        self._seen = -1
        self._revision = NO_REVISION
        self._deadline_ms: int | None = None
        self._kept: list[ThreadKeptLease] = []

    def start(self) -> None:
        self._thread.start()

    def submit(self, act: Callable[[SqliteTables], Result], *, is_write: bool) -> Future[Result]:
        """Run `act` on the thread. Cancelling the future has an effect only until it has begun."""
        future: Future[Result] = Future()

        def run(tables: SqliteTables) -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = act(tables)
            except BaseException as error:  # noqa: BLE001 - it belongs to the task that waits for the future
                future.set_exception(error)
            else:
                future.set_result(result)
            if is_write:
                self._refresh(tables)

        self._acts.put(run)
        return future

    def keep(self, kept: ThreadKeptLease) -> None:
        """Renew a lease from now on, until it is released."""

        def begin(tables: SqliteTables) -> None:
            self._kept.append(kept)
            self._renew(tables)

        self._acts.put(begin)

    def stop(self) -> Future[None]:
        self._acts.put(None)
        return self._ended

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        try:
            tables = self._open_tables()
        except BaseException as error:  # noqa: BLE001 - it belongs to the task that opens the store
            self.opened.set_exception(error)
            self._ended.set_result(None)
            return
        self.opened.set_result(None)
        try:
            self._work(tables)
        finally:
            self._close(tables)

    def _work(self, tables: SqliteTables) -> None:
        next_look = 0.0
        while True:
            if time.monotonic() >= next_look:
                is_well = self._look(tables)
                next_look = time.monotonic() + (self._pause_seconds() if is_well else RETRY_MS / 1000)
            try:
                act = self._acts.get(timeout=max(next_look - time.monotonic(), 0.0))
            except Empty:
                continue
            if act is None:
                return
            act(tables)

    def _close(self, tables: SqliteTables) -> None:
        try:
            tables.close()
        except StoreUnavailableError as error:
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)

    def _look(self, tables: SqliteTables) -> bool:
        """Detect writes of other processes and end expired leases; false where the database refused."""
        try:
            seen = tables.seen()
            if seen != self._seen:
                self._seen = seen
                if self._note(tables):
                    self._eager_until = time.monotonic() + EAGER_MS / 1000
            if self._deadline_ms is not None and self._deadline_ms <= self._clock.now_ms():
                tables.expire_leases()
                self._note(tables)
            if self._kept:
                self._renew(tables)
        except StoreUnavailableError:
            # Watchers read for themselves, and report what they find.
            self._on_change()
            return False
        return True

    def _renew(self, tables: SqliteTables) -> None:
        """Renew the leases that are due; a failed renewal is tried again at the next check."""
        self._kept = [kept for kept in self._kept if kept.is_wanted]
        for kept in self._kept:
            if kept.next_ms > self._clock.now_ms() or (sent_ms := kept.begin()) is None:
                continue
            try:
                tables.keep_alive(kept.lease)
            except LeaseExpiredError:
                kept.end()
            except StoreUnavailableError:
                kept.next_ms = sent_ms
            else:
                kept.confirm(sent_ms)
        self._refresh(tables)

    def _refresh(self, tables: SqliteTables) -> None:
        try:
            self._note(tables)
        except StoreUnavailableError:
            self._on_change()

    def _note(self, tables: SqliteTables) -> bool:
        """Notify the watchers if the revision has changed; returns whether it has."""
        revision, self._deadline_ms = tables.outlook()
        if revision == self._revision:
            return False
        self._revision = revision
        self._on_change()
        return True

    def _pause_seconds(self) -> float:
        if time.monotonic() < self._eager_until:
            return min(self._poll_seconds, EAGER_POLL_MS / 1000)
        return self._poll_seconds

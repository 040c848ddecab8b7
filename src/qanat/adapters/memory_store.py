"""A volatile metadata store: for tests and for the simulation, behind the port `cluster.store`.

No threads and no randomness: the same calls in the same order give the same answers. Time is the running
loop's (a simulated loop's, in the simulation) unless a clock is passed in. Leases expire before
every commit and by a timer of the loop.

`MemoryStore` is the asynchronous interface; `_Contents` holds the rules and is plain Python, which makes it the
reference that other adapters are compared with.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import assert_never

from msgspec import Struct

from qanat.adapters.kept_lease import RENEWALS_PER_LIFE
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
    check_commit,
    check_key,
    holds,
)
from qanat.model.errors import LeaseExpiredError, StoreUnavailableError

HISTORY_EVENTS = 10_000
"""Events stored for watchers; an eighth more may gather before the oldest are removed."""


class _Term(Struct):
    """A lease's time to live, and its deadline."""

    ttl_ms: int
    deadline_ms: int


class _Contents:
    """Entries, leases and history; every method is atomic."""

    def __init__(self, history_events: int) -> None:
        self.revision = EMPTY_REVISION
        self.compacted = Revision(0)
        self.entries: dict[str, Entry] = {}
        self.leases: dict[LeaseId, _Term] = {}
        self.history: list[Changes] = []
        self._history_events = history_events
        self._events_kept = 0
        self._last_lease = 0

    def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed | Refused:
        if not all(holds(compare, self.entries.get(compare.key)) for compare in compares):
            return Refused(tuple(self.entries.get(compare.key) for compare in compares), self.revision)
        for operation in operations:
            if isinstance(operation, Put) and operation.lease is not None:
                self.term(operation.lease)
        self._change(operations)
        return Committed(self.revision)

    def below(self, prefix: str) -> tuple[Entry, ...]:
        return tuple(self.entries[key] for key in sorted(self.entries) if key.startswith(prefix))

    def term(self, lease_id: LeaseId) -> _Term:
        if lease_id not in self.leases:
            raise LeaseExpiredError(f"lease {lease_id} is over; register again")
        return self.leases[lease_id]

    def grant(self, ttl_ms: int, now_ms: int) -> Lease:
        self._last_lease += 1
        lease = Lease(LeaseId(self._last_lease), ttl_ms)
        self.leases[lease.lease_id] = _Term(ttl_ms, now_ms + ttl_ms)
        return lease

    def end_lease(self, lease_id: LeaseId) -> None:
        if self.leases.pop(lease_id, None) is not None:
            self._change([Delete(entry.key) for entry in self.below("/") if entry.lease == lease_id])

    def expire(self, now_ms: int) -> None:
        due = [(term.deadline_ms, lease_id) for lease_id, term in self.leases.items() if term.deadline_ms <= now_ms]
        for _, lease_id in sorted(due):
            self.end_lease(lease_id)

    def after(self, revision: Revision, prefix: str) -> list[Changes] | Compacted:
        if revision < self.compacted:
            return Compacted(self.compacted)
        oldest = self.history[0].revision if self.history else self.revision
        changes = []
        for change in self.history[max(revision + 1 - oldest, 0) :]:
            events = tuple(event for event in change.events if event.key.startswith(prefix))
            if events:
                changes.append(Changes(change.revision, events))
        return changes

    def _change(self, operations: Sequence[Operation]) -> None:
        revision = Revision(self.revision + 1)
        events: list[Event] = []
        for operation in operations:
            match operation:
                case Put():
                    events.append(self._put(operation, revision))
                case Delete():
                    events += self._delete([operation.key] if operation.key in self.entries else [], revision)
                case DeletePrefix():
                    events += self._delete([entry.key for entry in self.below(operation.prefix)], revision)
                case never:
                    assert_never(never)
        if events:
            self.revision = revision
            self.history.append(Changes(revision, tuple(events)))
            self._events_kept += len(events)
            self._prune()

    def _put(self, put: Put, revision: Revision) -> Event:
        before = self.entries.get(put.key)
        created = revision if before is None else before.create_revision
        self.entries[put.key] = Entry(put.key, put.value, created, revision, put.lease)
        return Event(EventKind.PUT, put.key, put.value, revision, created)

    def _delete(self, keys: Sequence[str], revision: Revision) -> list[Event]:
        for key in keys:
            del self.entries[key]
        return [Event(EventKind.DELETE, key, b"", revision) for key in keys]

    def _prune(self) -> None:
        """Remove whole revisions, except the newest, until no more events than the bound are left."""
        if self._events_kept <= self._history_events + self._history_events // 8:
            return
        forgotten = 0
        while self._events_kept > self._history_events and forgotten < len(self.history) - 1:
            self._events_kept -= len(self.history[forgotten].events)
            forgotten += 1
        if forgotten:
            self.compacted = self.history[forgotten - 1].revision
            del self.history[:forgotten]


class MemoryStore:
    """The store of one process, or of all simulated ones."""

    def __init__(self, *, clock_ms: Callable[[], int] | None = None, history_events: int = HISTORY_EVENTS) -> None:
        self._contents = _Contents(history_events)
        self._clock_ms = clock_ms
        self._arrival = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def get(self, key: str) -> Entry | None:
        check_key(key)
        return self._opened().entries.get(key)

    def peek(self, key: str) -> Entry | None:
        """`get` at once, for observers such as tests."""
        return self._contents.entries.get(key)

    @property
    def revision(self) -> Revision:
        """The newest revision, for observers such as tests."""
        return self._contents.revision

    async def list(self, prefix: str) -> Snapshot:
        check_key(prefix)
        contents = self._opened()
        return Snapshot(contents.below(prefix), contents.revision)

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed | Refused:
        check_commit(compares, operations)
        self.expire_leases()
        try:
            return self._opened().commit(compares, operations)
        finally:
            self._notify_watchers()

    async def watch(self, prefix: str, after_revision: Revision) -> AsyncGenerator[Changes | Compacted, None]:
        check_key(prefix)
        if after_revision > self._opened().revision:
            raise StoreUnavailableError(f"the metadata store is behind revision {after_revision}; restart the broker")
        while True:
            arrival, contents = self._arrival, self._opened()
            found, reached = contents.after(after_revision, prefix), contents.revision
            if isinstance(found, Compacted):
                yield found
                return
            for changes in found:
                yield changes
            after_revision = reached
            await arrival.wait()

    async def grant_lease(self, ttl_ms: int) -> Lease:
        assert ttl_ms > 0, ttl_ms
        self.expire_leases()
        lease = self._opened().grant(ttl_ms, self.now_ms())
        self._set_timer()
        return lease

    async def keep_alive(self, lease: Lease) -> None:
        self.renew(lease)

    def renew(self, lease: Lease) -> None:
        """The effect of `keep_alive`."""
        self.expire_leases()
        term = self._opened().term(lease.lease_id)
        term.deadline_ms = self.now_ms() + term.ttl_ms

    def keep(self, lease: Lease) -> MemoryKeptLease:
        return MemoryKeptLease(self, lease)

    async def revoke(self, lease: Lease) -> None:
        self.expire_leases()
        self._opened().end_lease(lease.lease_id)
        self._notify_watchers()

    async def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._notify_watchers()

    def expire_leases(self) -> None:
        """End expired leases. The store does so by itself; tests with their own clock call it."""
        self._opened().expire(self.now_ms())
        self._notify_watchers()

    def _opened(self) -> _Contents:
        if self._is_closed:
            raise StoreUnavailableError("the metadata store is closed")
        return self._contents

    def _notify_watchers(self) -> None:
        self._arrival.set()
        self._arrival = asyncio.Event()

    def now_ms(self) -> int:
        """The clock of the leases."""
        if self._clock_ms is not None:
            return self._clock_ms()
        return round(asyncio.get_running_loop().time() * 1000)

    def _set_timer(self) -> None:
        """Wake up at the next deadline; after a keep-alive the wake-up is early, which does no harm."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadlines = [term.deadline_ms for term in self._contents.leases.values()]
        if deadlines and not self._is_closed:
            delay_ms = max(min(deadlines) - self.now_ms(), 1)
            self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self.expire_leases()
        self._set_timer()


class MemoryKeptLease:
    """A lease that timers of the loop renew: in a simulation the loop is never busy."""

    def __init__(self, store: MemoryStore, lease: Lease) -> None:
        self._store = store
        self._lease = lease
        self._over = asyncio.Event()
        self._confirmed_ms: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._renew()

    @property
    def lease(self) -> Lease:
        return self._lease

    def remaining_ms(self) -> int:
        return 0 if self._confirmed_ms is None else self._confirmed_ms + self._lease.ttl_ms - self._store.now_ms()

    async def lost(self) -> None:
        await self._over.wait()

    async def release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _renew(self) -> None:
        try:
            self._store.renew(self._lease)
        except LeaseExpiredError:
            self._confirmed_ms = None
            self._over.set()
        except StoreUnavailableError:
            pass  # The store is closed.
        else:
            self._confirmed_ms = self._store.now_ms()
            delay_s = self._lease.ttl_ms / RENEWALS_PER_LIFE / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._renew)

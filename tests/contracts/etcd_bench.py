"""The etcd store as the other stores appear to a test: from its first revision on, under a clock that the test sets.

One etcd serves many tests. Each has a prefix of its own and counts revisions from where it found the store.
Leases are etcd's own, far longer than any test; when the test's clock says that one is over, it is revoked. What etcd's
clock does with leases is tried elsewhere, in real time.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager

from qanat.adapters import etcd_messages as messages
from qanat.adapters.etcd_access import EtcdAccess
from qanat.adapters.etcd_store import EtcdStore
from qanat.adapters.kept_lease import ThreadKeptLease
from qanat.cluster.store import (
    EMPTY_REVISION,
    Absent,
    Changes,
    Committed,
    Compacted,
    Compare,
    CreatedAt,
    Entry,
    Event,
    Lease,
    LeaseId,
    ModifiedAt,
    Operation,
    Put,
    Refused,
    Revision,
    Snapshot,
)
from qanat.model.errors import LeaseExpiredError

LONG_TTL_MS = 600_000


class RebasedEtcd:
    """An `EtcdStore` with revisions from 1, leases from 1, and time by `clock_ms`."""

    def __init__(self, store: EtcdStore, origin: int, clock_ms: Callable[[], int]) -> None:
        self.store = store
        self._origin = origin
        self._clock_ms = clock_ms
        self._leases: dict[LeaseId, LeaseId] = {}
        self._terms: dict[LeaseId, tuple[int, int]] = {}

    async def get(self, key: str) -> Entry | None:
        return self._entry(await self.store.get(key))

    async def list(self, prefix: str) -> Snapshot:
        snapshot = await self.store.list(prefix)
        entries = (self._entry(entry) for entry in snapshot.entries)
        return Snapshot(tuple(entry for entry in entries if entry is not None), self._shown(snapshot.revision))

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed | Refused:
        await self.expire_leases()
        try:
            outcome = await self.store.commit([*map(self._compare, compares)], [*map(self._operation, operations)])
        except LeaseExpiredError as error:
            number = next(number for number, real in self._leases.items() if str(real) in str(error))
            raise LeaseExpiredError(str(error).replace(str(self._leases[number]), str(number))) from None
        match outcome:
            case Committed(revision):
                return Committed(self._shown(revision))
            case Refused(entries, revision):
                return Refused(tuple(map(self._entry, entries)), self._shown(revision))

    async def watch(self, prefix: str, after_revision: Revision) -> AsyncGenerator[Changes | Compacted, None]:
        async with aclosing(self.store.watch(prefix, Revision(after_revision + self._origin))) as watcher:
            async for change in watcher:
                match change:
                    case Changes(revision, events):
                        yield Changes(self._shown(revision), tuple(map(self._event, events)))
                    case Compacted(revision):
                        yield Compacted(self._shown(revision))

    async def grant_lease(self, ttl_ms: int) -> Lease:
        await self.expire_leases()
        real = await self.store.grant_lease(LONG_TTL_MS)
        number = LeaseId(len(self._leases) + 1)
        self._leases[number] = real.lease_id
        self._terms[number] = (ttl_ms, self._clock_ms() + ttl_ms)
        return Lease(number, ttl_ms)

    async def keep_alive(self, lease: Lease) -> None:
        await self.expire_leases()
        try:
            await self.store.keep_alive(self._real(lease))
        except LeaseExpiredError:
            raise LeaseExpiredError(f"lease {lease.lease_id} is over; register again") from None
        self._terms[lease.lease_id] = (lease.ttl_ms, self._clock_ms() + lease.ttl_ms)

    def keep(self, lease: Lease) -> ThreadKeptLease:
        return self.store.keep(self._real(lease))

    async def revoke(self, lease: Lease) -> None:
        await self.expire_leases()
        self._terms.pop(lease.lease_id, None)
        await self.store.revoke(self._real(lease))

    async def close(self) -> None:
        await self.store.close()

    async def expire_leases(self) -> None:
        now_ms = self._clock_ms()
        due = sorted((deadline, number) for number, (_, deadline) in self._terms.items() if deadline <= now_ms)
        for _, number in due:
            del self._terms[number]
            await self.store.revoke(Lease(self._leases[number], LONG_TTL_MS))

    async def forget(self, revision: Revision) -> None:
        """Compact: history up to and with `revision` is gone."""
        request = messages.compact_request(revision + self._origin)
        await self.store._connection.call("compact", messages.COMPACT, request, messages.read_header_of)

    def _real(self, lease: Lease) -> Lease:
        return Lease(self._leases[lease.lease_id], LONG_TTL_MS)

    def _shown(self, revision: Revision) -> Revision:
        return Revision(revision - self._origin)

    def _entry(self, entry: Entry | None) -> Entry | None:
        if entry is None:
            return None
        numbers = {real: number for number, real in self._leases.items()}
        lease = None if entry.lease is None else numbers[entry.lease]
        created, modified = self._shown(entry.create_revision), self._shown(entry.mod_revision)
        return Entry(entry.key, entry.value, created, modified, lease)

    def _event(self, event: Event) -> Event:
        created = self._shown(event.create_revision) if event.create_revision else event.create_revision
        return Event(event.kind, event.key, event.value, self._shown(event.revision), created)

    def _compare(self, compare: Compare) -> Compare:
        match compare:
            case Absent():
                return compare
            case ModifiedAt(key, revision):
                return ModifiedAt(key, Revision(revision + self._origin if revision > 0 else revision))
            case CreatedAt(key, revision):
                return CreatedAt(key, Revision(revision + self._origin if revision > 0 else revision))

    def _operation(self, operation: Operation) -> Operation:
        if isinstance(operation, Put) and operation.lease is not None:
            return Put(operation.key, operation.value, self._leases[operation.lease])
        return operation


@asynccontextmanager
async def rebased(access: EtcdAccess, clock_ms: Callable[[], int]) -> AsyncIterator[RebasedEtcd]:
    store = await EtcdStore.open(dataclasses.replace(access, prefix=f"test-{secrets.token_hex(6)}:"))
    try:
        origin = (await store.list("/")).revision - EMPTY_REVISION
        yield RebasedEtcd(store, origin, clock_ms)
    finally:
        await store.close()

"""The metadata store in etcd, shared by brokers on several hosts, behind the port `cluster.store`.

- `etcd_access`       endpoints (`etcd_endpoints`), TLS, user, prefix
- `etcd_connection`   calls with deadlines, and failover between members
- `etcd_commits`      commits that happen at most once though answers get lost
- `etcd_watch`        watching over as many streams as it takes
- `etcd_leases`       the thread that renews leases
- `etcd_keys`, `etcd_messages`, `etcd_wire`, `etcd_errors`, `etcd_versions`   encodings, errors, versions

Reads are linearizable. Callers do not notice an outage that ends within the request timeout; after a longer one
calls raise `StoreUnavailableError`, watchers wait, and everything continues once etcd is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from qanat.adapters import etcd_messages as messages
from qanat.adapters.etcd_access import EtcdAccess
from qanat.adapters.etcd_commits import EtcdCommits
from qanat.adapters.etcd_connection import EtcdConnection
from qanat.adapters.etcd_errors import EtcdFault, FaultKind, lease_is_over, store_error
from qanat.adapters.etcd_keys import Keys
from qanat.adapters.etcd_leases import LeaseThread
from qanat.adapters.etcd_versions import check_version
from qanat.adapters.etcd_watch import EtcdWatch
from qanat.adapters.kept_lease import ThreadKeptLease
from qanat.cluster.store import (
    Changes,
    Committed,
    Compacted,
    Compare,
    Entry,
    Lease,
    LeaseId,
    Operation,
    Refused,
    Revision,
    Snapshot,
    check_commit,
    check_key,
)
from qanat.model.errors import StoreUnavailableError

PAGE_ENTRIES = 500
"""Entries per request: a list of any length comes in answers of bounded size."""
CLOSING_TIMEOUT_MS = 500

Answer = TypeVar("Answer")


class EtcdStore:
    """An open store, used from the loop on which it was opened."""

    def __init__(self, access: EtcdAccess) -> None:
        self.access = access
        self._connection = EtcdConnection(access)
        self._keys = Keys(access.prefix.encode("ascii"))
        self._leases = LeaseThread(access)
        self._commits = EtcdCommits(self._connection, self._keys, self.grant_lease, self.keep)
        self._closing = asyncio.Event()
        self._watch = EtcdWatch(self._connection, self._keys, self._closing, self._current_revision)

    @staticmethod
    async def open(access: EtcdAccess) -> EtcdStore:
        """Connect, and check that the etcd there is usable."""
        store = EtcdStore(access)
        try:
            await store._check()
            await store._leases.start()
        except BaseException:
            await store.close()
            raise
        return store

    async def get(self, key: str) -> Entry | None:
        check_key(key)
        answer = await self._call("read", messages.RANGE, messages.range_request(self._keys.stored(key)), _range)
        return self._keys.entry(answer.entries[0]) if answer.entries else None

    async def list(self, prefix: str) -> Snapshot:
        check_key(prefix)
        while True:
            try:
                return await self._list(prefix)
            except EtcdFault as fault:
                # Compacted between two pages: the revision of the first is gone, so the list is read again.
                if fault.kind is not FaultKind.COMPACTED:
                    raise store_error("read", self.access, fault) from None

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed | Refused:
        check_commit(compares, operations)
        self._check_open()
        return await self._commits.commit(compares, operations)

    async def watch(self, prefix: str, after_revision: Revision) -> AsyncGenerator[Changes | Compacted, None]:
        check_key(prefix)
        self._check_open()
        async for change in self._watch.changes(prefix, after_revision):
            yield change

    async def grant_lease(self, ttl_ms: int) -> Lease:
        assert ttl_ms > 0, ttl_ms
        # In whole seconds. A grant whose answer was lost is requested again; the other one expires unused.
        request = messages.lease_grant_request(-(-ttl_ms // 1000))
        answer = await self._call("write", messages.LEASE_GRANT, request, messages.read_lease)
        return Lease(LeaseId(answer.lease_id), answer.ttl_s * 1000)

    async def keep_alive(self, lease: Lease) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.access.request_timeout_ms / 1000
        while True:
            try:
                is_alive = await self._connection.keep_alive(lease.lease_id, self.access.attempt_timeout_ms / 1000)
            except EtcdFault as fault:
                if fault.kind is FaultKind.FINAL or loop.time() > deadline:
                    raise store_error("write", self.access, fault) from None
                await asyncio.sleep(0.05)
                continue
            if not is_alive:
                raise lease_is_over(lease.lease_id)
            return

    def keep(self, lease: Lease) -> ThreadKeptLease:
        kept = ThreadKeptLease(lease)
        self._leases.keep(kept)
        return kept

    async def revoke(self, lease: Lease) -> None:
        await self._revoke(lease, self.access.request_timeout_ms)

    async def close(self) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        if self._commits.lease is not None:
            # For tidiness only: without it the notes go when their lease expires.
            with suppress(StoreUnavailableError):
                await self._revoke(self._commits.lease, CLOSING_TIMEOUT_MS)
        await self._leases.stop()
        await self._connection.close()

    async def _check(self) -> None:
        """A read from a majority, which shows whether we are authorized; then the version."""
        await self._current_revision()
        try:
            status, _ = await self._connection.call("open", messages.STATUS, b"", messages.read_status)
        except EtcdFault:
            return  # Users that may only read and write keys cannot read it.
        check_version(status.version, self.access)

    async def _list(self, prefix: str) -> Snapshot:
        self._check_open()
        start, end = self._keys.range_of(prefix)
        entries: list[Entry] = []
        revision = 0
        while True:
            request = messages.range_request(start, end, limit=PAGE_ENTRIES, revision=revision)
            page, _ = await self._connection.call("read", messages.RANGE, request, _range)
            revision = revision or page.header.revision
            entries += map(self._keys.entry, page.entries)
            if not page.has_more:
                return Snapshot(tuple(entries), Revision(revision))
            start = page.entries[-1].key + b"\0"

    async def _current_revision(self) -> Revision:
        answer = await self._call("read", messages.RANGE, messages.range_request(self._keys.stored("/")), _range)
        return Revision(answer.header.revision)

    async def _revoke(self, lease: Lease, timeout_ms: int) -> None:
        request = messages.lease_request(lease.lease_id)
        try:
            await self._connection.call(
                "write", messages.LEASE_REVOKE, request, messages.read_lease, timeout_ms=timeout_ms
            )
        except EtcdFault as fault:
            if fault.kind is not FaultKind.LEASE_GONE:
                raise store_error("write", self.access, fault) from None

    async def _call(self, act: str, method: str, request: bytes, read: Callable[[bytes], Answer]) -> Answer:
        self._check_open()
        try:
            answer, _ = await self._connection.call(act, method, request, read)
        except EtcdFault as fault:
            raise store_error(act, self.access, fault) from None
        return answer

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise StoreUnavailableError("the metadata store is closed")


_range = messages.read_range

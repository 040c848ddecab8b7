"""Commits to etcd: each happens at most once, and we know whether it did.

An answer may be lost: the member died, the leader changed, the network failed. If the commit is sent again, its own
first effect makes etcd refuse it, and that refusal would be wrong. So each commit writes a *note* beside its
changes: a key that belongs to one commit at a time of this process, with the compare that it is unchanged.
Only one of several attempts can pass that compare, and a refusal returns the note, which shows whether it was
ours (C81, C82).

Notes are at `<prefix>notes/<process>/<number>`, outside of what `list` and watchers read, under a lease that is kept
alive: those of a dead process expire.

A commit that might change nothing (deletions of keys that may be missing) has no note, because it must not
make a revision. When its answer is lost it is not repeated, and raises (rule 4 of the port).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

from qanat.adapters import etcd_messages as messages
from qanat.adapters.etcd_connection import EtcdConnection
from qanat.adapters.etcd_errors import EtcdFault, FaultKind, lease_is_over, store_error
from qanat.adapters.etcd_keys import Keys
from qanat.cluster.store import (
    Absent,
    Committed,
    Compare,
    CreatedAt,
    Delete,
    DeletePrefix,
    KeptLease,
    Lease,
    LeaseId,
    ModifiedAt,
    Operation,
    Put,
    Refused,
    Revision,
)
from qanat.model.errors import StoreUnavailableError

NOTES_TTL_MS = 600_000
_FRESH_TRIES = 3


@dataclass(slots=True)
class _Note:
    """A key for one commit at a time, and the revision of its last write: 0 where there is none."""

    key: bytes
    mod_revision: int = 0


class NotesLostError(Exception):
    """The lease of the notes has expired, and they are gone."""


class EtcdCommits:
    """`grant` and `keep` are the store's: the notes' lease is an ordinary one."""

    def __init__(
        self,
        connection: EtcdConnection,
        keys: Keys,
        grant: Callable[[int], Awaitable[Lease]],
        keep: Callable[[Lease], KeptLease],
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._grant = grant
        self._keep = keep
        self._lease: KeptLease | None = None
        self._lock = asyncio.Lock()
        self._process = ""
        self._free: list[_Note] = []
        self._notes_made = 0
        self._commits = 0

    @property
    def lease(self) -> Lease | None:
        """The lease of this process's notes; revoking it removes them."""
        return None if self._lease is None else self._lease.lease

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed | Refused:
        if not changes_something(compares, operations):
            return await self._without_note(compares, operations)
        for _ in range(_FRESH_TRIES):
            kept = await self._notes_lease()
            try:
                return await self._with_note(compares, operations, kept.lease)
            except NotesLostError:
                await self._forget(kept)
        raise StoreUnavailableError(
            f"cannot write the metadata store, {self._connection.access}: its leases end before they are used; "
            "check the clocks and the load of etcd's hosts"
        )

    async def _with_note(
        self, compares: Sequence[Compare], operations: Sequence[Operation], lease: Lease
    ) -> Committed | Refused:
        note = self._take()
        self._commits += 1
        mark = b"%d" % self._commits
        request = messages.txn_request(
            [*self._compares(compares), messages.compare_mod(note.key, note.mod_revision)],
            [*self._operations(operations), messages.put_operation(note.key, mark, lease.lease_id)],
            [*self._reads(compares), messages.range_operation(note.key)],
        )
        try:
            answer, attempt = await self._connection.call("write", messages.TXN, request, messages.read_txn)
        except EtcdFault as fault:
            raise await self._explained(fault, operations) from None
        if answer.is_done:
            self._give_back(note, answer.header.revision)
            return Committed(Revision(answer.header.revision))
        found = answer.ranges[-1].entries
        if found and found[0].value == mark:
            self._give_back(note, found[0].mod_revision)
            return Committed(Revision(found[0].mod_revision))
        if (found[0].mod_revision if found else 0) != note.mod_revision:
            raise self._notes_lost(attempt)
        self._give_back(note, note.mod_revision)
        return self._refusal(answer, len(compares))

    async def _without_note(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed | Refused:
        request = messages.txn_request(self._compares(compares), self._operations(operations), self._reads(compares))
        try:
            answer, _ = await self._connection.call(
                "write", messages.TXN, request, messages.read_txn, is_repeatable=not operations
            )
        except EtcdFault as fault:
            raise store_error("write", self._connection.access, fault) from None
        if answer.is_done:
            return Committed(Revision(answer.header.revision))
        return self._refusal(answer, len(compares))

    # Requests to etcd.

    def _compares(self, compares: Sequence[Compare]) -> list[bytes]:
        out = []
        for compare in compares:
            match compare:
                case Absent(key):
                    out.append(messages.compare_create(self._keys.stored(key), 0))
                case ModifiedAt(key, revision):
                    out.append(messages.compare_mod(self._keys.stored(key), revision))
                case CreatedAt(key, revision):
                    out.append(messages.compare_create(self._keys.stored(key), revision))
                case never:
                    assert_never(never)
        return out

    def _operations(self, operations: Sequence[Operation]) -> list[bytes]:
        out = []
        for operation in operations:
            match operation:
                case Put(key, value, lease):
                    out.append(messages.put_operation(self._keys.stored(key), value, lease or 0))
                case Delete(key):
                    out.append(messages.delete_operation(self._keys.stored(key)))
                case DeletePrefix(prefix):
                    out.append(messages.delete_operation(*self._keys.range_of(prefix)))
                case never:
                    assert_never(never)
        return out

    def _reads(self, compares: Sequence[Compare]) -> list[bytes]:
        return [messages.range_operation(self._keys.stored(compare.key)) for compare in compares]

    # Answers of etcd.

    def _refusal(self, answer: messages.TxnAnswer, count: int) -> Refused:
        entries = tuple(self._keys.entry(one.entries[0]) if one.entries else None for one in answer.ranges[:count])
        return Refused(entries, Revision(answer.header.revision))

    async def _explained(self, fault: EtcdFault, operations: Sequence[Operation]) -> Exception:
        """Which lease is gone: the caller's, or ours."""
        if fault.kind is not FaultKind.LEASE_GONE:
            return store_error("write", self._connection.access, fault)
        named = dict.fromkeys(one.lease for one in operations if isinstance(one, Put) and one.lease is not None)
        for lease_id in named:
            if not await self._is_alive(lease_id):
                return lease_is_over(lease_id)
        return self._notes_lost(fault.attempt)

    async def _is_alive(self, lease_id: LeaseId) -> bool:
        request = messages.lease_request(lease_id)
        try:
            answer, _ = await self._connection.call("read", messages.LEASE_TIME_TO_LIVE, request, messages.read_lease)
        except EtcdFault as fault:
            if fault.kind is FaultKind.LEASE_GONE:
                return False
            raise store_error("read", self._connection.access, fault) from None
        return answer.ttl_s > 0

    def _notes_lost(self, attempt: int) -> Exception:
        """The first attempt's answer is certain. After a later one, an earlier attempt may have succeeded."""
        if attempt == 1:
            return NotesLostError()
        return StoreUnavailableError(
            f"cannot tell whether a commit to the metadata store, {self._connection.access}, has happened: "
            "etcd was away for longer than its leases lived"
        )

    # Notes.

    def _take(self) -> _Note:
        if self._free:
            return self._free.pop()
        self._notes_made += 1
        return _Note(self._keys.note(self._process, self._notes_made))

    def _give_back(self, note: _Note, mod_revision: int) -> None:
        """Only after an answer: an attempt that may still arrive keeps its note."""
        note.mod_revision = mod_revision
        self._free.append(note)

    async def _notes_lease(self) -> KeptLease:
        async with self._lock:
            if self._lease is None:
                self._process = secrets.token_hex(8)
                self._lease = self._keep(await self._grant(NOTES_TTL_MS))
            return self._lease

    async def _forget(self, kept: KeptLease) -> None:
        """Start again under another name, unless that was done already."""
        if self._lease is kept:
            self._lease = None
            self._free.clear()
            await kept.release()


def changes_something(compares: Sequence[Compare], operations: Sequence[Operation]) -> bool:
    """Whether a commit makes a revision if its compares match: it writes, or deletes a key that a compare requires."""
    if any(isinstance(operation, Put) for operation in operations):
        return True
    present = [compare.key for compare in compares if not isinstance(compare, Absent)]
    deleted = {operation.key for operation in operations if isinstance(operation, Delete)}
    prefixes = tuple(operation.prefix for operation in operations if isinstance(operation, DeletePrefix))
    return any(key in deleted or key.startswith(prefixes) for key in present)

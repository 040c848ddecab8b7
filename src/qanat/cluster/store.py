"""The port to the metadata store: everything that the cluster needs of shared memory.

Adapters: `adapters.sqlite_store` (embedded, several processes on one host), `adapters.etcd_store` (several hosts) and
`adapters.memory_store` (tests and simulation); each passes the same contract suite. The semantics are etcd's.

Rule 1: every commit that changes something gets the next revision (or a later one, where others share the store);
        revisions only go forward. All that one commit does carries one revision and is seen at once: by `get`, by
        `list` and by watchers.
Rule 2: a caller that acts on what it read before compares it in the commit. A lease is only a hint of liveness and
        fences no writer.
Rule 3: within one commit a key is put at most once and not deleted as well, so the order of operations means nothing
        but the order of their events.
Rule 4: a commit that raised `StoreUnavailableError` may or may not have happened. It is repeated only with compares
        under which a second time does no harm.
Rule 5: cancelling a call does not undo it; rule 4 applies.
Rule 6: keys are ASCII paths that start with `/`; values are bytes. `keys` and `values` define them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from enum import Enum
from typing import NewType, Protocol

from msgspec import Struct

Revision = NewType("Revision", int)
LeaseId = NewType("LeaseId", int)

NO_REVISION = Revision(0)
EMPTY_REVISION = Revision(1)
"""The revision of a store in which nothing was ever written, as in etcd."""

OPERATIONS_MAX = 100
"""Operations, and compares, in one commit: etcd refuses more than 128."""
COMMIT_BYTES_MAX = 1024 * 1024
"""Keys and values of one commit together: etcd refuses more than 1.5 MiB."""


class Entry(Struct, frozen=True):
    """A key with its value and revisions."""

    key: str
    value: bytes
    create_revision: Revision
    mod_revision: Revision
    lease: LeaseId | None = None


class Snapshot(Struct, frozen=True):
    """All entries below a prefix at one revision, in key order."""

    entries: tuple[Entry, ...]
    revision: Revision


class Absent(Struct, frozen=True):
    """Holds when there is no such key."""

    key: str


class ModifiedAt(Struct, frozen=True):
    """Holds when the key exists and was last written at that revision."""

    key: str
    revision: Revision


class CreatedAt(Struct, frozen=True):
    """Holds when the key exists and has done so since that revision, however often it was written."""

    key: str
    revision: Revision


Compare = Absent | ModifiedAt | CreatedAt


class Put(Struct, frozen=True):
    """Write a key; with a lease, until that ends. The key is detached from an earlier lease."""

    key: str
    value: bytes
    lease: LeaseId | None = None


class Delete(Struct, frozen=True):
    """Remove a key; a missing one is fine."""

    key: str


class DeletePrefix(Struct, frozen=True):
    """Remove every key that starts with `prefix`."""

    prefix: str


Operation = Put | Delete | DeletePrefix


class Commit(Struct, frozen=True):
    """Operations that happen at once if all compares hold."""

    compares: tuple[Compare, ...]
    operations: tuple[Operation, ...]


class Committed(Struct, frozen=True):
    """All of it happened, at this revision; where nothing changed, the present revision of the store."""

    revision: Revision


class Refused(Struct, frozen=True):
    """None of it happened: a compare did not hold. `entries` are the compared keys as they are, in the order given."""

    entries: tuple[Entry | None, ...]
    revision: Revision


class EventKind(Enum):
    """What happened to a key."""

    PUT = "put"
    DELETE = "delete"


class Event(Struct, frozen=True):
    """One key's change. A deletion has an empty value and no creation."""

    kind: EventKind
    key: str
    value: bytes
    revision: Revision
    create_revision: Revision = NO_REVISION


class Changes(Struct, frozen=True):
    """What one commit changed below the watched prefix: never half of it."""

    revision: Revision
    events: tuple[Event, ...]


class Compacted(Struct, frozen=True):
    """The last item of a watch: history up to `revision` is gone. List, then watch from there."""

    revision: Revision


class Lease(Struct, frozen=True):
    """A promise that attached keys live at least `ttl_ms` (perhaps longer than requested) after the last keep-alive."""

    lease_id: LeaseId
    ttl_ms: int


class KeptLease(Protocol):
    """A lease that is renewed in the background, whatever the event loop is busy with, until it is released or over.

    Renewing ends as well when the loop has not run for half a minute: a process that cannot answer clients should lose
    its registration.
    """

    @property
    def lease(self) -> Lease: ...

    def remaining_ms(self) -> int:
        """For how long it certainly lives, by the last renewal that was answered and counted from when that was sent.

        Not positive where it may be over. A caller that acts on the lease checks this first, with a margin, and
        compares all the same (rule 2).
        """
        ...

    async def lost(self) -> None:
        """Return once the store has said that the lease is over, or renewing was given up: register again."""
        ...

    async def release(self) -> None:
        """Renew no more. The lease expires by itself, or is revoked."""
        ...


class MetadataStore(Protocol):
    """Small, consistent, shared memory of a cluster. Any method may raise `StoreUnavailableError`."""

    async def get(self, key: str) -> Entry | None: ...

    async def list(self, prefix: str) -> Snapshot: ...

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed | Refused:
        """Do all operations if all compares hold, and nothing otherwise.

        Raises `LeaseExpiredError`, having done nothing, where a put names a lease
        that is gone and the compares hold.
        """
        ...

    def watch(self, prefix: str, after_revision: Revision) -> AsyncGenerator[Changes | Compacted, None]:
        """Every change below `prefix` after that revision, once and in order, for ever.

        To resume, watch again after the revision of the last `Changes`. Close the
        generator (or cancel the task that waits in it) to stop. Ends after
        `Compacted`, and with `StoreUnavailableError` when the store fails or closes,
        or is behind `after_revision` (it was restored from an old copy).
        """
        ...

    async def grant_lease(self, ttl_ms: int) -> Lease: ...

    async def keep_alive(self, lease: Lease) -> None:
        """Restart the lease's time; `LeaseExpiredError` where it is over."""
        ...

    def keep(self, lease: Lease) -> KeptLease:
        """Renew a lease from now on, several times in its life; `close` of the store ends that."""
        ...

    async def revoke(self, lease: Lease) -> None:
        """End a lease now and delete its keys, as one revision. One that is over is fine."""
        ...

    async def close(self) -> None:
        """Release everything; watchers that still wait fail. Closing twice is fine."""
        ...


def check_key(key: str) -> None:
    """Keys and prefixes of a form that every adapter can order and bound."""
    assert key.startswith("/"), key
    assert key.isascii(), key
    assert "\0" not in key, key


def check_commit(compares: Sequence[Compare], operations: Sequence[Operation]) -> None:
    """What every adapter requires of a commit before it looks at the store: breaking it is a bug of the caller."""
    assert len(operations) <= OPERATIONS_MAX, f"{len(operations)} operations in one commit, at most {OPERATIONS_MAX}"
    assert len(compares) <= OPERATIONS_MAX, f"{len(compares)} compares in one commit, at most {OPERATIONS_MAX}"
    for compare in compares:
        check_key(compare.key)
        assert isinstance(compare, Absent) or compare.revision > NO_REVISION, f"use Absent for {compare.key}"
    puts = [operation for operation in operations if isinstance(operation, Put)]
    deleted = [operation.key for operation in operations if isinstance(operation, Delete)]
    prefixes = tuple(operation.prefix for operation in operations if isinstance(operation, DeletePrefix))
    for key in (*(put.key for put in puts), *deleted, *prefixes):
        check_key(key)
    written = {put.key for put in puts}
    assert len(written) == len(puts), "a key is put twice in one commit"
    assert not any(put.key in deleted or put.key.startswith(prefixes) for put in puts), "a key is put and deleted"
    size = sum(len(put.key) + len(put.value) for put in puts)
    assert size <= COMMIT_BYTES_MAX, f"{size} bytes in one commit, at most {COMMIT_BYTES_MAX}"


def holds(compare: Compare, entry: Entry | None) -> bool:
    """Whether a compare is true of the entry that its key has now."""
    match compare:
        case Absent():
            return entry is None
        case ModifiedAt():
            return entry is not None and entry.mod_revision == compare.revision
        case CreatedAt():
            return entry is not None and entry.create_revision == compare.revision

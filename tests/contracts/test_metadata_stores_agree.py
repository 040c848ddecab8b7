"""The memory store is the model: the same random operations give the same answers everywhere (C84).

`QANAT_STORE_OPERATIONS=10000 QANAT_STORE_SEED=7` runs the long form; `make stores` does so.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from random import Random

import pytest
from tests.contracts.etcd_bench import RebasedEtcd, rebased

from qanat.adapters.boot_clock import BootClock
from qanat.adapters.etcd_access import EtcdAccess
from qanat.adapters.memory_store import MemoryStore
from qanat.adapters.sqlite_store import SqliteStore
from qanat.cluster.store import (
    EMPTY_REVISION,
    Absent,
    Changes,
    Compacted,
    Compare,
    CreatedAt,
    Delete,
    DeletePrefix,
    Entry,
    Lease,
    LeaseId,
    MetadataStore,
    ModifiedAt,
    Operation,
    Put,
    Revision,
)
from qanat.model.errors import LeaseExpiredError

OPERATIONS = int(os.environ.get("QANAT_STORE_OPERATIONS", "1000"))
ETCD_OPERATIONS = int(os.environ.get("QANAT_STORE_OPERATIONS", "300"))
SEED = int(os.environ.get("QANAT_STORE_SEED", "1"))
HISTORY_EVENTS = 200
KEYS = [f"/{folder}/{name}" for folder in ("t", "t0", "b") for name in ("a", "a.b", "z", "10", "9")]


class Clock:
    """A clock that both stores read."""

    def __init__(self) -> None:
        self.now_ms = 5_000

    def read(self) -> int:
        return self.now_ms


class Pair:
    """The model and the store under test, with the same calls. `forget` compacts where the other does not by itself."""

    def __init__(
        self,
        model: MemoryStore,
        other: SqliteStore | RebasedEtcd,
        clock: Clock,
        random: Random,
        forget: Callable[[Revision], Awaitable[None]] | None = None,
    ) -> None:
        self.model = model
        self.other = other
        self._forget = forget
        self._forgotten = Revision(0)
        self.random = random
        self.clock = clock
        self.leases: list[Lease] = []

    async def step(self) -> None:
        acts = (self.commit, self.read, self.grant, self.use_lease, self.let_pass, self.watch)
        await self.random.choices(acts, weights=(60, 15, 4, 6, 8, 7))[0]()

    async def commit(self) -> None:
        entries = {entry.key: entry for entry in (await self.model.list("/")).entries}
        compares = [self._compare(entries) for _ in range(self.random.choice((0, 1, 1, 2)))]
        operations = self._operations()
        answers = [await answer(store, compares, operations) for store in (self.model, self.other)]
        assert answers[0] == answers[1]

    async def read(self) -> None:
        prefix = self.random.choice(("/", "/t", "/t/", "/b/", "/b/1"))
        assert await self.model.list(prefix) == await self.other.list(prefix)
        key = self.random.choice(KEYS)
        assert await self.model.get(key) == await self.other.get(key)

    async def grant(self) -> None:
        ttl_ms = self.random.randrange(1, 2_000)
        lease = await self.model.grant_lease(ttl_ms)
        assert lease == await self.other.grant_lease(ttl_ms)
        self.leases = [*self.leases[-7:], lease]

    async def use_lease(self) -> None:
        if self.leases:
            lease, act = self.random.choice(self.leases), self.random.choice(("keep_alive", "keep_alive", "revoke"))
            assert await use(self.model, act, lease) == await use(self.other, act, lease)

    async def let_pass(self) -> None:
        self.clock.now_ms += self.random.randrange(500)
        self.model.expire_leases()
        await self.other.expire_leases()

    async def watch(self) -> None:
        """From some revision on up to a last commit below the prefix, by which both watchers know the end."""
        prefix = self.random.choice(("/", "/t/", "/b/"))
        for store in (self.model, self.other):
            await store.commit([], [Put(f"{prefix}end", b"")])
        end = (await self.model.list("/")).revision
        await self._forget_as_the_model()
        start = Revision(max(self.random.randrange(end - 300, end), EMPTY_REVISION))
        assert await heard(self.model, prefix, start, end) == await heard(self.other, prefix, start, end)

    async def _forget_as_the_model(self) -> None:
        """The oldest watcher learns what the model has compacted."""
        if self._forget is None:
            return
        async with aclosing(self.model.watch("/", EMPTY_REVISION)) as watcher:
            oldest = await anext(watcher)
        if isinstance(oldest, Compacted) and oldest.revision > self._forgotten:
            self._forgotten = oldest.revision
            await self._forget(oldest.revision)

    def _compare(self, entries: dict[str, Entry]) -> Compare:
        key = self.random.choice(KEYS)
        entry = entries.get(key)
        if entry is None or self.random.random() < 0.1:
            return Absent(key) if self.random.random() < 0.9 else ModifiedAt(key, Revision(3))
        revision = self.random.choice((entry.create_revision, entry.mod_revision))
        return self.random.choice((ModifiedAt(key, revision), CreatedAt(key, revision)))

    def _operations(self) -> list[Operation]:
        if self.random.random() < 0.05:
            return [DeletePrefix(self.random.choice(("/t/", "/t", "/b/1")))]
        keys = self.random.sample(KEYS, self.random.randrange(5))
        return [Delete(key) if self.random.random() < 0.3 else self._put(key) for key in keys]

    def _put(self, key: str) -> Put:
        lease: LeaseId | None = None
        if self.leases and self.random.random() < 0.3:
            lease = self.random.choice(self.leases).lease_id
        return Put(key, self.random.randbytes(self.random.randrange(20)), lease)


async def answer(store: MetadataStore, compares: list[Compare], operations: list[Operation]) -> object:
    try:
        return await store.commit(compares, operations)
    except LeaseExpiredError as error:
        return str(error)


async def use(store: MetadataStore, act: str, lease: Lease) -> str:
    try:
        await (store.revoke(lease) if act == "revoke" else store.keep_alive(lease))
    except LeaseExpiredError as error:
        return str(error)
    return "done"


async def heard(store: MetadataStore, prefix: str, start: Revision, end: Revision) -> list[Changes | Compacted]:
    found: list[Changes | Compacted] = []
    async with aclosing(store.watch(prefix, start)) as watcher:
        async for item in watcher:
            found.append(item)
            if item.revision == end:
                break
    return found


@pytest.fixture
def fast_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: agreement needs no disk."""
    in_memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=in_memory if os.access(in_memory, os.W_OK) else tmp_path) as folder:
        yield Path(folder)


async def compare(
    model: MemoryStore,
    other: SqliteStore | RebasedEtcd,
    clock: Clock,
    operations: int,
    forget: Callable[[Revision], Awaitable[None]] | None = None,
) -> None:
    pair = Pair(model, other, clock, Random(SEED), forget)
    for number in range(operations):
        try:
            await pair.step()
        except AssertionError as error:
            raise AssertionError(f"QANAT_STORE_SEED={SEED}, operation {number}: {error}") from error


async def test_c84_sqlite_answers_as_the_model_does(fast_folder: Path) -> None:
    clock = Clock()
    model = MemoryStore(clock_ms=clock.read, history_events=HISTORY_EVENTS)
    path = str(fast_folder / "metadata.db")
    other = await SqliteStore.open(path, clock=BootClock("boot", clock.read), history_events=HISTORY_EVENTS)
    await compare(model, other, clock, OPERATIONS)
    await other.close()
    await model.close()


async def test_c84_etcd_answers_as_the_model_does(etcd_access: EtcdAccess) -> None:
    clock = Clock()
    model = MemoryStore(clock_ms=clock.read, history_events=HISTORY_EVENTS)
    async with rebased(etcd_access, clock.read) as other:
        await compare(model, other, clock, ETCD_OPERATIONS, other.forget)
    await model.close()

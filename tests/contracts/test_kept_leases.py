"""What `MetadataStore.keep` owes its users, in real time: leases that live without any work on the event loop."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from qanat.adapters import kept_lease
from qanat.adapters.etcd_access import EtcdAccess
from qanat.adapters.etcd_store import EtcdStore
from qanat.adapters.kept_lease import ThreadKeptLease
from qanat.adapters.memory_store import MemoryStore
from qanat.adapters.sqlite_store import SqliteStore
from qanat.cluster.store import Lease, LeaseId, MetadataStore, Put

Open = Callable[[], Awaitable[MetadataStore]]
TTL_MS = {"memory": 300, "sqlite": 1_500, "etcd": 2_000}
"""Long enough that a busy machine renews in time (one loop is always in time for itself); etcd gives none for less."""


async def memory_store() -> MetadataStore:
    return MemoryStore()


@pytest.fixture(params=["memory", "sqlite", "etcd"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opening(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Open:
    match kind:
        case "memory":
            return memory_store
        case "sqlite":
            return lambda: SqliteStore.open(str(tmp_path / "metadata.db"))
        case _:
            access: EtcdAccess = request.getfixturevalue("etcd_access")
            own = dataclasses.replace(access, prefix=f"test-{secrets.token_hex(6)}:")
            return lambda: EtcdStore.open(own)


async def registered(store: MetadataStore, ttl_ms: int) -> Lease:
    lease = await store.grant_lease(ttl_ms)
    await store.commit([], [Put("/alive", b"", lease.lease_id)])
    return lease


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - stores do not tell of what this waits for
            await asyncio.sleep(0.05)


async def test_a_kept_lease_lives_until_it_is_released_though_the_loop_is_busy(opening: Open, kind: str) -> None:
    store = await opening()
    ttl_ms = TTL_MS[kind]
    lease = await registered(store, ttl_ms)
    kept = store.keep(lease)
    if kind == "memory":  # Which has nothing but the loop, and says so.
        await asyncio.sleep(1.5 * ttl_ms / 1000)
    else:
        time.sleep(1.5 * ttl_ms / 1000)  # noqa: ASYNC251 - nothing else runs on this loop, which is the point
    assert kept.remaining_ms() > 0
    assert await store.get("/alive") is not None
    assert kept.lease == lease
    await kept.release()

    async def is_gone() -> bool:
        return await store.get("/alive") is None

    await until(is_gone)
    assert kept.remaining_ms() <= 0
    await store.close()


async def test_who_keeps_a_lease_hears_when_it_is_over(opening: Open, kind: str) -> None:
    store = await opening()
    kept = store.keep(await registered(store, TTL_MS[kind]))

    async def is_certain() -> bool:
        return kept.remaining_ms() > 0

    await until(is_certain)
    await store.revoke(kept.lease)
    async with asyncio.timeout(30):
        await kept.lost()
    assert kept.remaining_ms() <= 0
    await store.close()


async def test_keeping_what_is_over_already_is_told(opening: Open, kind: str) -> None:
    store = await opening()
    lease = await registered(store, TTL_MS[kind])
    await store.revoke(lease)
    kept = store.keep(lease)
    async with asyncio.timeout(30):
        await kept.lost()
    assert kept.remaining_ms() <= 0
    await store.close()


async def test_what_is_certain_is_counted_from_the_sending() -> None:
    now_ms = 1_000
    kept = ThreadKeptLease(Lease(LeaseId(1), 3_000), lambda: now_ms)
    assert kept.remaining_ms() == 0
    sent_ms = kept.begin()
    assert sent_ms == 1_000
    assert kept.next_ms == 2_000
    now_ms = 1_700
    kept.confirm(sent_ms)
    assert kept.remaining_ms() == 2_300


async def test_a_loop_that_does_not_run_loses_its_lease() -> None:
    now_ms = 0
    kept = ThreadKeptLease(Lease(LeaseId(1), 3_000), lambda: now_ms)
    for now_ms in range(0, kept_lease.LOOP_SILENCE_MAX_MS, 1_000):
        assert kept.begin() == now_ms
        await asyncio.sleep(0)
    kept.confirm(now_ms)
    now_ms += kept_lease.LOOP_SILENCE_MAX_MS + 1
    assert kept.begin() is None
    assert not kept.is_wanted
    assert kept.remaining_ms() <= 0
    await kept.lost()

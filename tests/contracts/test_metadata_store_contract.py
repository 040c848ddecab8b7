"""What every adapter of the port `cluster.store` owes its users, rule by rule."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path

import pytest
from tests.contracts.etcd_bench import rebased

from qanat.adapters.boot_clock import BootClock
from qanat.adapters.etcd_access import EtcdAccess
from qanat.adapters.memory_store import MemoryStore
from qanat.adapters.sqlite_store import SqliteStore
from qanat.cluster.store import (
    COMMIT_BYTES_MAX,
    EMPTY_REVISION,
    OPERATIONS_MAX,
    Absent,
    Changes,
    Committed,
    Compacted,
    Compare,
    CreatedAt,
    Delete,
    DeletePrefix,
    Event,
    EventKind,
    MetadataStore,
    ModifiedAt,
    Operation,
    Put,
    Refused,
    Revision,
)
from qanat.model.errors import LeaseExpiredError, StoreUnavailableError

HISTORY_EVENTS = 64


class Clock:
    """A clock that the test sets; leases of both adapters run on it."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def read(self) -> int:
        return self.now_ms


class Bench:
    """A store, its clock, and the way to have what is over expire now."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        expire: Callable[[], Awaitable[None]],
        forget: Callable[[Revision], Awaitable[None]] | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self._expire = expire
        self._forget = forget

    @property
    def forgets_by_itself(self) -> bool:
        """Whether watchers read history from the store's own memory, so that what is forgotten is gone for them."""
        return self._forget is None

    async def forget_old(self, newest: Revision) -> None:
        """Have history forgotten as far as the store's bound says; those that do so by themselves have done it."""
        if self._forget is not None:
            await self._forget(Revision(newest - HISTORY_EVENTS))

    async def let_pass(self, duration_ms: int) -> None:
        self.clock.now_ms += duration_ms
        await self._expire()

    async def do(self, *operations: Operation, when: list[Compare] | None = None) -> Revision:
        outcome = await self.store.commit(when or [], operations)
        assert isinstance(outcome, Committed)
        return outcome.revision


@asynccontextmanager
async def memory_bench(_: Path) -> AsyncIterator[Bench]:
    clock = Clock()
    store = MemoryStore(clock_ms=clock.read, history_events=HISTORY_EVENTS)

    async def expire() -> None:
        store.expire_leases()

    yield Bench(store, clock, expire)
    await store.close()


@asynccontextmanager
async def sqlite_bench(folder: Path) -> AsyncIterator[Bench]:
    clock = Clock()
    boot_clock = BootClock("this boot", clock.read)
    store = await SqliteStore.open(str(folder / "metadata.db"), clock=boot_clock, history_events=HISTORY_EVENTS)
    yield Bench(store, clock, store.expire_leases)
    await store.close()


@asynccontextmanager
async def etcd_bench(access: EtcdAccess) -> AsyncIterator[Bench]:
    clock = Clock()
    async with rebased(access, clock.read) as store:
        yield Bench(store, clock, store.expire_leases, store.forget)


def bench_of(name: str, folder: Path, request: pytest.FixtureRequest) -> AbstractAsyncContextManager[Bench]:
    match name:
        case "memory":
            return memory_bench(folder)
        case "sqlite":
            return sqlite_bench(folder)
        case _:
            return etcd_bench(request.getfixturevalue("etcd_access"))


@pytest.fixture(params=["memory", "sqlite", "etcd"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Callable[[Bench], Awaitable[None]]], None]:
    opening = bench_of(request.param, tmp_path, request)

    async def on_bench(test: Callable[[Bench], Awaitable[None]]) -> None:
        async with asyncio.timeout(60), opening as bench:
            await test(bench)

    return lambda test: asyncio.run(on_bench(test))


Run = Callable[[Callable[[Bench], Awaitable[None]]], None]


async def collect(
    bench: Bench, count: int, prefix: str = "/", after: Revision = EMPTY_REVISION
) -> list[Changes | Compacted]:
    """The first `count` things that a watcher hears."""
    heard: list[Changes | Compacted] = []
    async with aclosing(bench.store.watch(prefix, after)) as watcher:
        async for changes in watcher:
            heard.append(changes)
            if len(heard) == count:
                break
    return heard


def put(key: str, value: bytes, revision: int, created: int | None = None) -> Event:
    create_revision = Revision(revision if created is None else created)
    return Event(EventKind.PUT, key, value, Revision(revision), create_revision)


def deleted(key: str, revision: int) -> Event:
    return Event(EventKind.DELETE, key, b"", Revision(revision))


def test_an_empty_store_has_the_first_revision_and_nothing_in_it(run: Run) -> None:
    async def test(bench: Bench) -> None:
        assert await bench.store.get("/a") is None
        snapshot = await bench.store.list("/")
        assert (snapshot.entries, snapshot.revision) == ((), EMPTY_REVISION)

    run(test)


def test_an_entry_tells_its_value_and_when_it_was_made_and_written(run: Run) -> None:
    async def test(bench: Bench) -> None:
        created = await bench.do(Put("/a", b"1"))
        modified = await bench.do(Put("/a", b""))
        entry = await bench.store.get("/a")

        assert entry is not None
        assert (entry.key, entry.value, entry.create_revision, entry.mod_revision) == ("/a", b"", created, modified)
        assert modified == created + 1 == EMPTY_REVISION + 2

    run(test)


def test_a_key_that_was_deleted_begins_anew(run: Run) -> None:
    async def test(bench: Bench) -> None:
        await bench.do(Put("/a", b"1"))
        await bench.do(Delete("/a"))
        assert await bench.store.get("/a") is None
        again = await bench.do(Put("/a", b"2"))
        entry = await bench.store.get("/a")
        assert entry is not None
        assert entry.create_revision == again

    run(test)


def test_a_commit_that_changes_nothing_has_no_revision_of_its_own(run: Run) -> None:
    async def test(bench: Bench) -> None:
        before = await bench.do(Put("/a", b"1"))
        assert await bench.do(Delete("/none"), DeletePrefix("/none/")) == before
        assert await bench.do() == before

    run(test)


def test_all_operations_of_a_commit_carry_one_revision(run: Run) -> None:
    async def test(bench: Bench) -> None:
        await bench.do(Put("/x/1", b""), Put("/x/2", b""), Put("/old", b""))
        revision = await bench.do(Put("/a", b"1"), DeletePrefix("/x/"), Delete("/old"), Put("/b", b"2"))
        snapshot = await bench.store.list("/")

        assert [(entry.key, entry.mod_revision) for entry in snapshot.entries] == [("/a", revision), ("/b", revision)]
        assert snapshot.revision == revision

    run(test)


def test_a_refused_commit_does_nothing_and_shows_the_compared_keys(run: Run) -> None:
    async def test(bench: Bench) -> None:
        revision = await bench.do(Put("/a", b"1"))
        outcome = await bench.store.commit([Absent("/none"), Absent("/a")], [Put("/b", b""), Delete("/a")])

        assert outcome == Refused((None, await bench.store.get("/a")), revision)
        snapshot = await bench.store.list("/")
        assert ([entry.key for entry in snapshot.entries], snapshot.revision) == (["/a"], revision)

    run(test)


@pytest.mark.parametrize(
    ("compare", "is_true"),
    [
        (Absent("/none"), True),
        (Absent("/a"), False),
        (ModifiedAt("/a", Revision(3)), True),
        (ModifiedAt("/a", Revision(2)), False),
        (ModifiedAt("/none", Revision(3)), False),
        (CreatedAt("/a", Revision(2)), True),
        (CreatedAt("/a", Revision(3)), False),
        (CreatedAt("/none", Revision(2)), False),
    ],
)
def test_a_compare_tells_truth(run: Run, compare: Compare, is_true: bool) -> None:
    async def test(bench: Bench) -> None:
        await bench.do(Put("/a", b"1"))
        await bench.do(Put("/a", b"2"))
        outcome = await bench.store.commit([compare], [Put("/b", b"")])

        assert isinstance(outcome, Committed) is is_true
        assert (await bench.store.get("/b") is not None) is is_true

    run(test)


def test_of_many_who_compare_the_same_only_one_wins(run: Run) -> None:
    async def test(bench: Bench) -> None:
        attempts = (bench.store.commit([Absent("/lock")], [Put("/lock", b"%d" % n)]) for n in range(20))
        outcomes = await asyncio.gather(*attempts)
        assert [isinstance(outcome, Committed) for outcome in outcomes].count(True) == 1

    run(test)


def test_list_gives_exactly_the_keys_below_a_prefix_in_order(run: Run) -> None:
    async def test(bench: Bench) -> None:
        names = ["/t/b", "/t/a", "/t/a.b", "/t/a-b", "/t/Z", "/t/~", "/u", "/s", "/t", "/t0", "/t/10", "/t/9"]
        await bench.do(*(Put(name, name.encode()) for name in names))
        snapshot = await bench.store.list("/t/")

        assert [entry.key for entry in snapshot.entries] == sorted(name for name in names if name.startswith("/t/"))
        assert [entry.value for entry in snapshot.entries] == [entry.key.encode() for entry in snapshot.entries]

    run(test)


def test_list_is_of_one_moment(run: Run) -> None:
    async def test(bench: Bench) -> None:
        async def write() -> None:
            for number in range(30):
                await bench.do(*(Put(f"/k/{i}", b"%d" % number) for i in range(5)))

        async def read() -> None:
            for _ in range(30):
                snapshot = await bench.store.list("/k/")
                assert len({entry.value for entry in snapshot.entries}) <= 1
                assert all(entry.mod_revision == snapshot.revision for entry in snapshot.entries)
                await asyncio.sleep(0)

        await asyncio.gather(write(), read(), read())

    run(test)


def test_a_prefix_deletes_exactly_what_starts_with_it(run: Run) -> None:
    async def test(bench: Bench) -> None:
        await bench.do(Put("/p/1", b""), Put("/p/2/3", b""), Put("/p", b""), Put("/p0", b""), Put("/P/1", b""))
        await bench.do(DeletePrefix("/p/"))
        assert [entry.key for entry in (await bench.store.list("/")).entries] == ["/P/1", "/p", "/p0"]

    run(test)


def test_too_much_in_one_commit_is_a_bug_of_the_caller(run: Run) -> None:
    async def test(bench: Bench) -> None:
        most = [Put(f"/{number}", b"") for number in range(OPERATIONS_MAX)]
        await bench.do(*most)
        with pytest.raises(AssertionError, match="101 operations"):
            await bench.store.commit([], [*most, Put("/more", b"")])
        with pytest.raises(AssertionError, match="101 compares"):
            await bench.store.commit([Absent("/a")] * 101, [])
        with pytest.raises(AssertionError, match="bytes in one commit"):
            await bench.store.commit([], [Put("/a", b"x" * COMMIT_BYTES_MAX)])
        assert await bench.store.get("/more") is None

    run(test)


@pytest.mark.parametrize(
    "operations",
    [
        [Put("/a", b"1"), Put("/a", b"2")],
        [Put("/a", b"1"), Delete("/a")],
        [DeletePrefix("/"), Put("/a", b"1")],
        [Put("a", b"")],
        [Put("/ä", b"")],
    ],
)
def test_operations_that_contradict_each_other_are_a_bug_of_the_caller(run: Run, operations: list[Operation]) -> None:
    async def test(bench: Bench) -> None:
        with pytest.raises(AssertionError):
            await bench.store.commit([], operations)

    run(test)


def test_a_watcher_hears_what_came_before_and_what_comes_after_its_start(run: Run) -> None:
    async def test(bench: Bench) -> None:
        await bench.do(Put("/a", b"1"))
        await bench.do(Put("/a", b"2"))
        watching = asyncio.create_task(collect(bench, 3))
        await asyncio.sleep(0.01)
        await bench.do(Delete("/a"))

        assert await watching == [
            Changes(Revision(2), (put("/a", b"1", 2),)),
            Changes(Revision(3), (put("/a", b"2", 3, created=2),)),
            Changes(Revision(4), (deleted("/a", 4),)),
        ]

    run(test)


def test_a_watcher_hears_a_commit_whole_and_in_the_order_of_its_operations(run: Run) -> None:
    async def test(bench: Bench) -> None:
        await bench.do(Put("/x/2", b""), Put("/x/1", b""))
        await bench.do(Put("/z", b"1"), DeletePrefix("/x/"), Put("/b", b"2"))

        assert await collect(bench, 1, after=Revision(2)) == [
            Changes(Revision(3), (put("/z", b"1", 3), deleted("/x/1", 3), deleted("/x/2", 3), put("/b", b"2", 3)))
        ]

    run(test)


def test_a_watcher_hears_only_of_its_prefix(run: Run) -> None:
    async def test(bench: Bench) -> None:
        await bench.do(Put("/t/1", b""), Put("/t", b""), Put("/u/1", b""))
        await bench.do(Put("/u/2", b""))
        await bench.do(Put("/t/2", b""))
        heard = await collect(bench, 2, "/t/")
        assert heard == [Changes(Revision(2), (put("/t/1", b"", 2),)), Changes(Revision(4), (put("/t/2", b"", 4),))]

    run(test)


def test_snapshot_and_watch_from_its_revision_give_everything_once(run: Run) -> None:
    async def test(bench: Bench) -> None:
        async def write() -> None:
            for number in range(40):
                await bench.do(Put(f"/n/{number}", b""))

        async def follow() -> list[str]:
            await asyncio.sleep(0.002)
            snapshot = await bench.store.list("/n/")
            seen = [entry.key for entry in snapshot.entries]
            rest = await collect(bench, 40 - len(seen), "/n/", snapshot.revision) if len(seen) < 40 else []
            return seen + [event.key for changes in rest if isinstance(changes, Changes) for event in changes.events]

        followers = [asyncio.create_task(follow()) for _ in range(4)]
        await write()
        for follower in followers:
            assert sorted(await follower) == sorted(f"/n/{number}" for number in range(40))

    run(test)


def test_a_watcher_resumes_after_any_revision_it_has_heard(run: Run) -> None:
    async def test(bench: Bench) -> None:
        for number in range(10):
            await bench.do(Put("/a", b"%d" % number), Put("/b", b"%d" % number))
        everything = await collect(bench, 10)
        for split in range(1, 10):
            last = everything[split - 1]
            assert isinstance(last, Changes)
            assert await collect(bench, 10 - split, after=last.revision) == everything[split:]

    run(test)


def test_a_slow_watcher_loses_nothing(run: Run) -> None:
    async def test(bench: Bench) -> None:
        revisions: list[int] = []
        async with aclosing(bench.store.watch("/", EMPTY_REVISION)) as watcher:
            for number in range(1, 6):
                for _ in range(number):
                    await bench.do(Put("/a", b""))
                for _ in range(number):
                    changes = await anext(watcher)
                    revisions.append(changes.revision)
        assert revisions == list(range(2, 17))

    run(test)


def test_a_watcher_whose_history_is_gone_is_told_and_ends(run: Run) -> None:
    async def test(bench: Bench) -> None:
        for number in range(HISTORY_EVENTS * 2):
            newest = await bench.do(Put("/a", b"%d" % number))
        await bench.forget_old(newest)
        [first] = await collect(bench, 1)
        assert isinstance(first, Compacted)
        async with aclosing(bench.store.watch("/", EMPTY_REVISION)) as watcher:
            assert [heard async for heard in watcher] == [first]

        current = (await bench.store.list("/")).revision
        assert current - HISTORY_EVENTS - HISTORY_EVENTS // 8 <= first.revision <= current - HISTORY_EVENTS
        assert await collect(bench, 1, after=Revision(first.revision - 1)) == [first]
        kept = await collect(bench, current - first.revision, after=first.revision)
        assert [changes.revision for changes in kept] == list(range(first.revision + 1, current + 1))

    run(test)


def test_a_watcher_that_falls_behind_while_it_works_is_told_unless_it_was_sent_everything(run: Run) -> None:
    async def test(bench: Bench) -> None:
        await bench.do(Put("/a", b""))
        async with aclosing(bench.store.watch("/", EMPTY_REVISION)) as watcher:
            assert isinstance(await anext(watcher), Changes)
            for _ in range(HISTORY_EVENTS * 2):
                newest = await bench.do(Put("/a", b""))
            await bench.forget_old(newest)
            heard = [await anext(watcher)]
            while isinstance(heard[-1], Changes) and heard[-1].revision < newest:
                heard.append(await anext(watcher))
            is_told = len(heard) == 1 and isinstance(heard[0], Compacted)
            was_sent = [change.revision for change in heard] == list(range(3, newest + 1))
            assert is_told or (was_sent and not bench.forgets_by_itself)

    run(test)


def test_a_watcher_of_a_quiet_prefix_is_not_compacted_by_what_it_does_not_watch(run: Run) -> None:
    async def test(bench: Bench) -> None:
        watching = asyncio.create_task(collect(bench, 1, "/quiet/"))
        for _ in range(HISTORY_EVENTS * 2):
            await bench.do(Put("/busy", b""))
            await asyncio.sleep(0.001)
        revision = await bench.do(Put("/quiet/a", b""))
        assert await watching == [Changes(revision, (put("/quiet/a", b"", revision),))]

    run(test)


def test_history_keeps_the_newest_revision_however_large(run: Run) -> None:
    async def test(bench: Bench) -> None:
        await bench.do(Put("/a", b""))
        revision = await bench.do(*(Put(f"/{number}", b"") for number in range(OPERATIONS_MAX)))
        [changes] = await collect(bench, 1, after=Revision(revision - 1))
        assert isinstance(changes, Changes)
        assert len(changes.events) == OPERATIONS_MAX > HISTORY_EVENTS

    run(test)


def test_watching_from_the_future_says_that_the_store_went_back(run: Run) -> None:
    async def test(bench: Bench) -> None:
        with pytest.raises(StoreUnavailableError, match="restart"):
            await collect(bench, 1, after=Revision(99))

    run(test)


def test_a_cancelled_watcher_leaves_the_store_as_it_was(run: Run) -> None:
    async def test(bench: Bench) -> None:
        watchers = [asyncio.create_task(collect(bench, 1)) for _ in range(10)]
        await asyncio.sleep(0.01)
        for watcher in watchers[:9]:
            watcher.cancel()
        outcomes = await asyncio.gather(*watchers[:9], return_exceptions=True)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
        await bench.do(Put("/a", b""))
        assert len(await watchers[9]) == 1

    run(test)


def test_a_cancelled_commit_happens_once_or_not_at_all(run: Run) -> None:
    async def test(bench: Bench) -> None:
        tasks = [asyncio.create_task(bench.do(Put(f"/{number}", b""), Put(f"/{number}+", b""))) for number in range(20)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        entries = (await bench.store.list("/")).entries
        assert len(entries) % 2 == 0
        revision = await bench.do(Put("/after", b""))
        assert revision == EMPTY_REVISION + len(entries) // 2 + 1

    run(test)


def test_a_lease_that_is_over_deletes_its_keys_as_one_revision(run: Run) -> None:
    async def test(bench: Bench) -> None:
        lease = await bench.store.grant_lease(5_000)
        await bench.do(Put("/b", b"", lease.lease_id), Put("/a", b"", lease.lease_id), Put("/free", b""))
        entry = await bench.store.get("/a")
        assert entry is not None
        assert entry.lease == lease.lease_id
        await bench.let_pass(4_999)
        assert len((await bench.store.list("/")).entries) == 3
        await bench.let_pass(1)

        assert [entry.key for entry in (await bench.store.list("/")).entries] == ["/free"]
        assert (await collect(bench, 2))[1] == Changes(Revision(3), (deleted("/a", 3), deleted("/b", 3)))

    run(test)


def test_leases_end_one_by_one_in_the_order_of_their_deadlines(run: Run) -> None:
    async def test(bench: Bench) -> None:
        late, early = await bench.store.grant_lease(3_000), await bench.store.grant_lease(2_000)
        await bench.do(Put("/late", b"", late.lease_id), Put("/early", b"", early.lease_id))
        await bench.let_pass(10_000)
        heard = await collect(bench, 2, after=Revision(2))
        assert heard == [
            Changes(Revision(3), (deleted("/early", 3),)),
            Changes(Revision(4), (deleted("/late", 4),)),
        ]

    run(test)


def test_keep_alive_begins_the_time_anew(run: Run) -> None:
    async def test(bench: Bench) -> None:
        lease = await bench.store.grant_lease(1_000)
        revision = await bench.do(Put("/a", b"", lease.lease_id))
        for _ in range(5):
            await bench.let_pass(900)
            await bench.store.keep_alive(lease)
        assert (await bench.store.list("/")).revision == revision
        await bench.let_pass(1_000)
        assert await bench.store.get("/a") is None
        with pytest.raises(LeaseExpiredError):
            await bench.store.keep_alive(lease)

    run(test)


def test_a_lease_is_not_saved_by_a_keep_alive_that_comes_too_late(run: Run) -> None:
    async def test(bench: Bench) -> None:
        lease = await bench.store.grant_lease(1_000)
        await bench.do(Put("/a", b"", lease.lease_id))
        bench.clock.now_ms += 1_000
        with pytest.raises(LeaseExpiredError):
            await bench.store.keep_alive(lease)
        assert await bench.store.get("/a") is None

    run(test)


def test_revoke_ends_a_lease_at_once_and_twice_is_fine(run: Run) -> None:
    async def test(bench: Bench) -> None:
        lease = await bench.store.grant_lease(60_000)
        revision = await bench.do(Put("/a", b"", lease.lease_id), Put("/b", b"", lease.lease_id))
        await bench.store.revoke(lease)
        await bench.store.revoke(lease)

        snapshot = await bench.store.list("/")
        assert (snapshot.entries, snapshot.revision) == ((), revision + 1)
        with pytest.raises(LeaseExpiredError):
            await bench.store.keep_alive(lease)

    run(test)


def test_a_put_under_a_lease_that_is_over_does_nothing(run: Run) -> None:
    async def test(bench: Bench) -> None:
        lease = await bench.store.grant_lease(1_000)
        bench.clock.now_ms += 1_000
        with pytest.raises(LeaseExpiredError):
            await bench.store.commit([], [Put("/free", b""), Put("/a", b"", lease.lease_id)])
        refused = await bench.store.commit([ModifiedAt("/a", Revision(9))], [Put("/a", b"", lease.lease_id)])
        assert isinstance(refused, Refused)
        assert (await bench.store.list("/")).revision == EMPTY_REVISION

    run(test)


def test_a_key_belongs_to_the_lease_of_its_last_put(run: Run) -> None:
    async def test(bench: Bench) -> None:
        first, second = await bench.store.grant_lease(60_000), await bench.store.grant_lease(60_000)
        await bench.do(Put("/moved", b"", first.lease_id), Put("/freed", b"", first.lease_id))
        await bench.do(Put("/moved", b"", second.lease_id), Put("/freed", b""))
        await bench.store.revoke(first)
        assert [entry.key for entry in (await bench.store.list("/")).entries] == ["/freed", "/moved"]
        await bench.store.revoke(second)
        assert [entry.key for entry in (await bench.store.list("/")).entries] == ["/freed"]

    run(test)


def test_a_key_made_anew_outlives_the_lease_of_its_predecessor(run: Run) -> None:
    async def test(bench: Bench) -> None:
        lease = await bench.store.grant_lease(1_000)
        await bench.do(Put("/a", b"", lease.lease_id))
        await bench.do(Delete("/a"))
        await bench.do(Put("/a", b""))
        await bench.let_pass(1_000)
        assert await bench.store.get("/a") is not None

    run(test)


def test_a_closed_store_refuses_and_its_watchers_fail(run: Run) -> None:
    async def test(bench: Bench) -> None:
        watching = asyncio.create_task(collect(bench, 1))
        await asyncio.sleep(0.01)
        await bench.store.close()
        await bench.store.close()
        with pytest.raises(StoreUnavailableError, match="closed"):
            await watching
        with pytest.raises(StoreUnavailableError, match="closed"):
            await bench.store.get("/a")
        with pytest.raises(StoreUnavailableError, match="closed"):
            await bench.store.commit([], [Put("/a", b"")])

    run(test)

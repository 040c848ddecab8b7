"""The SQLite metadata store where it meets the world: other processes, crashes, full and broken disks (C68, C71)."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest

from qanat.adapters.boot_clock import BootClock, boottime_ms
from qanat.adapters.sqlite_database import SqliteDatabase
from qanat.adapters.sqlite_store import POLL_MS, SqliteStore
from qanat.adapters.sqlite_tables import SqliteTables
from qanat.cluster.store import EMPTY_REVISION, Changes, Committed, Entry, Put, Revision, Snapshot
from qanat.model.errors import LeaseExpiredError, StoreUnavailableError

PRELUDE = """
import asyncio, resource, sys
from qanat.adapters.sqlite_store import SqliteStore
from qanat.cluster.store import *
from qanat.model.errors import StoreUnavailableError

async def fill(store, count, size=1000):
    for number in range(count):
        await store.commit([], [Put(f"/n/{number:06}", b"x" * size)])
        print(number, flush=True)
"""


def start(script: str, *arguments: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    program = PRELUDE + textwrap.dedent(script) + "\nasyncio.run(main())\n"
    command = [*prefix, sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def output(process: subprocess.Popen[str]) -> str:
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return printed


def in_small_file_system(script: str, folder: Path) -> str:
    """Run a script with `folder` being a file system of 1 MB, mounted where only the script sees it."""
    mount = 'mount -t tmpfs -o size=1m tmpfs "$0" && exec "$@"'
    prefix = ("unshare", "--mount", "sh", "-c", mount, str(folder))
    if shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("mounting needs root and unshare")
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine does not let us mount")
    return output(start(script, str(folder), prefix=prefix))


@asynccontextmanager
async def opened(path: Path, **options: Any) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(str(path), **options)
    try:
        yield store
    finally:
        await store.close()


def run(test: Coroutine[Any, Any, None]) -> None:
    async def with_deadline() -> None:
        async with asyncio.timeout(60):
            await test

    asyncio.run(with_deadline())


async def numbers(store: SqliteStore) -> list[int]:
    return [int(entry.key.rpartition("/")[2]) for entry in (await store.list("/n/")).entries]


def crash_image(path: Path) -> tuple[bytes, bytes]:
    """Database and write-ahead log as a crash would leave them now; the shared memory goes with the machine."""
    return path.read_bytes(), Path(f"{path}-wal").read_bytes()


def from_image(folder: Path, database: bytes, log: bytes) -> Path:
    folder.mkdir()
    (folder / "metadata.db").write_bytes(database)
    (folder / "metadata.db-wal").write_bytes(log)
    return folder / "metadata.db"


def spoil(path: Path) -> None:
    """Overwrite everything but the first page."""
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\x55" * (len(content) - 4096))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metadata.db"


def test_what_was_committed_is_there_after_opening_again(path: Path) -> None:
    async def test() -> None:
        async with opened(path) as store:
            outcome = await store.commit([], [Put("/a", b"1")])
        async with opened(path) as store:
            entry = await store.get("/a")
            assert entry is not None
            assert outcome == Committed(entry.mod_revision)
            async with aclosing(store.watch("/", EMPTY_REVISION)) as watcher:
                assert isinstance(await anext(watcher), Changes)

    run(test())


def test_c68_commits_are_on_disk_when_they_return(path: Path) -> None:
    database = SqliteDatabase(str(path), busy_timeout_ms=100)

    assert database.rows("PRAGMA journal_mode") == [("wal",)]
    assert database.rows("PRAGMA synchronous") == [(2,)]
    database.close()


def test_closing_leaves_no_thread_and_no_open_file(path: Path) -> None:
    threads, descriptors = set(threading.enumerate()), len(os.listdir("/proc/self/fd"))

    async def test() -> None:
        for _ in range(3):
            async with opened(path) as store:
                watcher = asyncio.create_task(anext(store.watch("/", EMPTY_REVISION)))
                await store.get("/a")
            with pytest.raises(StoreUnavailableError):
                await watcher

    run(test())
    assert set(threading.enumerate()) <= threads
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert os.listdir(path.parent) == ["metadata.db"]


@pytest.mark.parametrize("turns", [0, 1, 2, 5])
def test_an_opening_that_is_cancelled_leaves_nothing_behind(path: Path, turns: int) -> None:
    threads = set(threading.enumerate())

    async def test() -> None:
        opening = asyncio.create_task(SqliteStore.open(str(path)))
        for _ in range(turns):
            await asyncio.sleep(0)
        if not opening.cancel():
            # Its thread was quicker: on a busy machine a turn may take that long.
            await opening.result().close()
            return
        with pytest.raises(asyncio.CancelledError):
            await opening

    run(test())
    assert set(threading.enumerate()) <= threads


def test_a_closing_that_is_cancelled_closes_all_the_same(path: Path) -> None:
    threads = set(threading.enumerate())

    async def test() -> None:
        store = await SqliteStore.open(str(path))
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        await store.close()

    run(test())
    assert set(threading.enumerate()) <= threads


def test_processes_that_race_for_a_counter_lose_no_update(path: Path) -> None:
    """They also race for making the file, and each watches all of it."""
    script = """
        async def main():
            store = await SqliteStore.open(sys.argv[1])
            wins = 0
            while wins < 40:
                entry = await store.get("/counter")
                compare = ModifiedAt("/counter", entry.mod_revision) if entry else Absent("/counter")
                count = int(entry.value) if entry else 0
                wins += isinstance(await store.commit([compare], [Put("/counter", b"%d" % (count + 1))]), Committed)
            seen = []
            async for changes in store.watch("/counter", EMPTY_REVISION):
                seen.append(int(changes.events[0].value))
                if len(seen) == 120:
                    break
            print(seen == list(range(1, 121)))
            await store.close()
        """
    processes = [start(script, str(path)) for _ in range(3)]
    assert [output(process) for process in processes] == ["True\n"] * 3


def test_a_watcher_sees_another_process_write_soon(path: Path) -> None:
    script = """
        async def main():
            store = await SqliteStore.open(sys.argv[1])
            for number in range(20):
                now = __import__("time").monotonic_ns()
                await store.commit([], [Put("/time", b"%d" % now)])
                await asyncio.sleep(0.01)
            await store.close()
        """

    async def test() -> None:
        async with opened(path) as store, aclosing(store.watch("/", EMPTY_REVISION)) as watcher:
            process = start(script, str(path))
            revisions, delays_ms = [], []
            for _ in range(20):
                changes = await anext(watcher)
                assert isinstance(changes, Changes)
                revisions.append(changes.revision)
                delays_ms.append((time.monotonic_ns() - int(changes.events[0].value)) / 1e6)
            await asyncio.to_thread(output, process)
        assert revisions == list(range(2, 22))
        # The median: a single one may have waited for a processor, or for the writer's fsync.
        assert sorted(delays_ms)[10] < POLL_MS * 5

    run(test())


def test_a_killed_writer_loses_nothing_that_was_acknowledged(path: Path) -> None:
    script = """
        async def main():
            store = await SqliteStore.open(sys.argv[1])
            base = 1 + max([int(entry.key[3:]) for entry in (await store.list("/n/")).entries], default=-1)
            for number in range(base, 10**6):
                await store.commit([], [Put(f"/n/{number:06}", b"x" * 500), Put("/last", b"%d" % number)])
                print(number, flush=True)
        """
    random = Random(3)

    async def check(acknowledged: int) -> None:
        async with opened(path) as store:
            found = await numbers(store)
            last = await store.get("/last")
        assert found == list(range(len(found)))
        assert len(found) > acknowledged
        assert last is not None
        assert int(last.value) == found[-1]

    for _ in range(4):
        process = start(script, str(path))
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(random.randrange(1, 60))]
        process.send_signal(signal.SIGKILL)
        lines += process.communicate()[0].splitlines(keepends=True)
        run(check(max(int(line) for line in lines if line.endswith("\n"))))


def test_c68_a_torn_write_ahead_log_loses_only_its_tail(path: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with opened(path) as store:
            for number in range(30):
                await store.commit([], [Put(f"/n/{number:06}", b"x" * 300)])
            database, log = crash_image(path)
        for number, (tear, at_least) in enumerate(
            [
                (log, 30),
                (log + b"garbage" * 1000, 30),
                (log[:-1], 29),
                (log[:-5000], 20),
                (log[: len(log) // 2] + bytes(len(log) // 2), 1),
                (log[: len(log) // 3], 1),
                (log[:-100] + bytes(100), 29),
            ]
        ):
            copy = tmp_path / f"copy-{number}"
            async with opened(from_image(copy, database, tear)) as store:
                found = await numbers(store)
                assert found == list(range(len(found)))
                assert len(found) >= at_least, number
                assert (await store.list("/")).revision == EMPTY_REVISION + len(found)
                assert isinstance(await store.commit([], [Put("/n/999999", b"")]), Committed)

    run(test())


def test_c68_a_missing_shared_memory_file_is_made_again(path: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with opened(path) as store:
            await store.commit([], [Put("/n/0", b"")])
            database, log = crash_image(path)
        async with opened(from_image(tmp_path / "copy", database, log)) as store:
            assert await numbers(store) == [0]

    run(test())


def test_c68_a_lock_held_by_another_process_is_an_error_and_not_a_stop(path: Path) -> None:
    async def test() -> None:
        async with opened(path, busy_timeout_ms=200) as store:
            await store.commit([], [Put("/n/0", b"")])
            intruder = apsw.Connection(str(path))
            intruder.execute("BEGIN IMMEDIATE")
            assert await numbers(store) == [0]
            commit = asyncio.create_task(store.commit([], [Put("/n/1", b"")]))
            ticks = 0
            while not commit.done():
                await asyncio.sleep(0.01)
                ticks += 1
            assert ticks >= 5
            with pytest.raises(StoreUnavailableError, match="lock"):
                await commit
            intruder.execute("ROLLBACK")
            intruder.close()
            await store.commit([], [Put("/n/2", b"")])
            assert await numbers(store) == [0, 2]

    run(test())


def test_c68_a_full_disk_is_told_and_freeing_some_heals(tmp_path: Path) -> None:
    printed = in_small_file_system(
        """
        async def main():
            store = await SqliteStore.open(sys.argv[1] + "/metadata.db")
            ballast = sys.argv[1] + "/ballast"
            with open(ballast, "wb") as file:
                file.write(bytes(500_000))
            try:
                await fill(store, 10**6)
            except StoreUnavailableError as error:
                print("FAULT", error)
            print("COUNT", len((await store.list("/n/")).entries))
            __import__("os").remove(ballast)
            print("AFTER", type(await store.commit([], [Put("/n/more", b"")])).__name__)
            await store.close()
            store = await SqliteStore.open(sys.argv[1] + "/metadata.db")
            print("AGAIN", len((await store.list("/n/")).entries))
            await store.close()
        """,
        tmp_path,
    )
    lines = printed.splitlines()
    acknowledged = [line for line in lines if line.isdigit()]
    *_, fault, count, after, again = lines
    assert "the disk is full" in fault
    assert count == f"COUNT {len(acknowledged)}"
    assert (after, again) == ("AFTER Committed", f"AGAIN {len(acknowledged) + 1}")


def test_a_file_size_limit_is_told(path: Path) -> None:
    script = """
        async def main():
            store = await SqliteStore.open(sys.argv[1])
            resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
            try:
                await fill(store, 10**6, 5000)
            except StoreUnavailableError as error:
                print("FAULT", error)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            print("COUNT", len((await store.list("/n/")).entries))
            print("AFTER", type(await store.commit([], [Put("/n/more", b"")])).__name__)
            await store.close()
        """
    *acknowledged, fault, count, after = output(start(script, str(path))).splitlines()
    assert "ulimit -f" in fault
    assert count == f"COUNT {len(acknowledged)}"
    assert after == "AFTER Committed"


def test_a_read_only_file_system_is_told(tmp_path: Path) -> None:
    printed = in_small_file_system(
        """
        async def main():
            path = sys.argv[1] + "/metadata.db"
            await (await SqliteStore.open(path)).close()
            __import__("subprocess").run(["mount", "-o", "remount,ro", sys.argv[1]], check=True)
            try:
                await SqliteStore.open(path)
            except StoreUnavailableError as error:
                print(error)
        """,
        tmp_path,
    )
    assert printed.startswith("cannot open the metadata store"), printed
    assert "file system" in printed


def test_c65_after_a_failed_fsync_nothing_more_is_accepted(path: Path) -> None:
    """The kernel's second answer would be a lie (C65). The fourth sync is that of the second commit, after those of
    the log's header, of the folder and of the first commit."""
    if shutil.which("strace") is None:
        pytest.skip("failing an fsync needs strace")
    script = """
        async def main():
            store = await SqliteStore.open(sys.argv[1])
            for key in ("/n/0", "/n/1", "/n/2"):
                try:
                    await store.commit([], [Put(key, b"")])
                    print("done")
                except StoreUnavailableError as error:
                    print(error)
            await store.close()
        """
    asyncio.run(_make(path))
    inject = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=fdatasync,fsync:error=EIO:when=4")
    process = start(script, str(path), prefix=inject)
    printed, errors = process.communicate(timeout=60)
    if "ptrace" in errors:
        pytest.skip("this machine does not let us trace")
    first, second, third = printed.splitlines()
    assert (first, "file system failed" in second) == ("done", True), printed
    assert "until the broker is restarted" in third


async def _make(path: Path) -> None:
    async with opened(path) as store:
        await store.commit([], [Put("/made", b"")])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"this is no database, it is a letter to a friend, and a long one at that" * 100, "not an SQLite database"),
        (None, "cannot be opened"),
    ],
    ids=["a letter", "a folder"],
)
def test_what_is_no_database_is_refused(path: Path, content: bytes | None, words: str) -> None:
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)

    async def test() -> None:
        with pytest.raises(StoreUnavailableError, match=words):
            await SqliteStore.open(str(path))

    threads = set(threading.enumerate())
    run(test())
    assert set(threading.enumerate()) <= threads


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    async def test() -> None:
        with pytest.raises(StoreUnavailableError, match="folder exists"):
            await SqliteStore.open(str(tmp_path / "none" / "metadata.db"))

    run(test())


def test_a_damaged_database_is_told(path: Path) -> None:
    async def test() -> None:
        async with opened(path) as store:
            for number in range(100):
                await store.commit([], [Put(f"/n/{number:06}", b"x" * 1000)])
        spoil(path)
        with pytest.raises(StoreUnavailableError, match="damaged"):
            async with opened(path) as store:
                await store.list("/")

    run(test())


def test_a_database_of_a_later_format_is_refused(path: Path) -> None:
    async def test() -> None:
        async with opened(path):
            pass
        connection = apsw.Connection(str(path))
        connection.execute("PRAGMA user_version = 99")
        connection.close()
        with pytest.raises(StoreUnavailableError, match="format 99"):
            await SqliteStore.open(str(path))

    run(test())


def test_an_sqlite_that_loses_data_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")

    async def test() -> None:
        with pytest.raises(StoreUnavailableError, match=r"3\.51\.2 .* install apsw 3\.51\.3"):
            await SqliteStore.open(str(path))

    run(test())


def test_leases_run_out_on_real_time_and_are_kept_alive(path: Path) -> None:
    async def test() -> None:
        async with opened(path) as store:
            began_ms = boottime_ms()
            short, kept = await store.grant_lease(1_000), await store.grant_lease(60_000)
            await store.commit([], [Put("/short", b"", short.lease_id), Put("/kept", b"", kept.lease_id)])
            async with aclosing(store.watch("/short", Revision(2))) as watcher:
                changes = await anext(watcher)
            assert isinstance(changes, Changes)
            assert boottime_ms() - began_ms >= 990
            assert await store.get("/kept") is not None

    run(test())


def test_the_lease_of_a_killed_process_ends(path: Path) -> None:
    script = """
        async def main():
            store = await SqliteStore.open(sys.argv[1])
            lease = await store.grant_lease(1_200)
            await store.commit([], [Put("/alive", b"", lease.lease_id)])
            while True:
                print("alive", flush=True)
                await asyncio.sleep(0.1)
                await store.keep_alive(lease)
        """

    async def test() -> None:
        async with opened(path) as store:
            process = start(script, str(path))
            assert process.stdout is not None
            for _ in range(14):  # Longer than a lease that is not kept.
                await asyncio.to_thread(process.stdout.readline)
            assert await store.get("/alive") is not None
            async with aclosing(store.watch("/alive", Revision(2))) as watcher:
                process.kill()
                await anext(watcher)
            assert await store.get("/alive") is None
            await asyncio.to_thread(process.communicate)

    run(test())


def test_a_lease_does_not_run_out_while_everybody_waits_for_a_lock(path: Path) -> None:
    now_ms = [1_000]
    clock = BootClock("boot", lambda: now_ms[0])
    ours, other = (SqliteTables(SqliteDatabase(str(path), busy_timeout_ms=0), clock, 100) for _ in range(2))
    kept, forsaken, over = ours.grant_lease(3_000), ours.grant_lease(3_000), ours.grant_lease(500)
    intruder = apsw.Connection(str(path))
    intruder.execute("BEGIN IMMEDIATE")
    for _ in range(10):
        now_ms[0] += 1_000
        with pytest.raises(StoreUnavailableError):
            other.expire_leases()
    intruder.execute("ROLLBACK")
    intruder.close()

    other.expire_leases()
    ours.keep_alive(kept)
    with pytest.raises(LeaseExpiredError):
        ours.keep_alive(over)  # It had run out before anybody waited.

    now_ms[0] += 1_000
    other.expire_leases()
    ours.keep_alive(kept)
    with pytest.raises(LeaseExpiredError):
        ours.keep_alive(forsaken)


def test_a_reboot_ends_all_leases(path: Path) -> None:
    async def test() -> None:
        async with opened(path, clock=BootClock("before", lambda: 10**9)) as store:
            lease = await store.grant_lease(3_600_000)
            await store.commit([], [Put("/alive", b"", lease.lease_id)])
        async with opened(path, clock=BootClock("after", lambda: 5)) as store:
            async with aclosing(store.watch("/alive", Revision(2))) as watcher:
                await anext(watcher)
            assert await store.get("/alive") is None

    run(test())


def test_c71_nothing_asks_the_wall_clock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> float:
        raise AssertionError("the wall clock was asked")

    async def test() -> None:
        async with opened(path) as store:
            lease = await store.grant_lease(60_000)
            await store.commit([], [Put("/a", b"", lease.lease_id)])
            await store.keep_alive(lease)
            assert await store.get("/a") is not None

    for name in ("time", "time_ns"):
        monkeypatch.setattr(time, name, refuse)
    asyncio.run(test())


def test_history_longer_than_a_page_is_heard_whole_and_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qanat.adapters.sqlite_tables.PAGE_EVENTS", 7)

    async def test() -> None:
        async with opened(path) as store:
            for number in range(12):
                await store.commit([], [Put(f"/{part}", b"%d" % number) for part in range(number % 5 + 1)])
            heard = []
            async with aclosing(store.watch("/", EMPTY_REVISION)) as watcher:
                for _ in range(12):
                    changes = await anext(watcher)
                    assert isinstance(changes, Changes)
                    heard.append((changes.revision, len(changes.events)))
                await store.commit([], [Put("/end", b"")])
                assert (await anext(watcher)).revision == 14
            assert heard == [(number + 2, number % 5 + 1) for number in range(12)]

    run(test())


def test_what_is_read_together_belongs_to_one_moment(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process commits between the two statements of a list."""
    reader, writer = (
        SqliteTables(SqliteDatabase(str(path), busy_timeout_ms=100), BootClock("boot", lambda: 0), 100)
        for _ in range(2)
    )
    below = reader._below

    def interrupted(prefix: str) -> tuple[Entry, ...]:
        entries = below(prefix)
        writer.commit([], [Put("/a", b"")])
        return entries

    monkeypatch.setattr(reader, "_below", interrupted)
    assert reader.snapshot("/") == Snapshot((), EMPTY_REVISION)
    monkeypatch.undo()
    assert len(reader.snapshot("/").entries) == 1
    reader.close()
    writer.close()

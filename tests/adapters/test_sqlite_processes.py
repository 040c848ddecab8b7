"""The SQLite metadata store under the broker processes of one host: everybody writes, watches and keeps a lease.

`QANAT_STORE_PROCESSES=8 QANAT_STORE_SECONDS=60` runs the long form; `make stores` does so.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest

from qanat.adapters.sqlite_store import SqliteStore
from qanat.cluster.store import Compacted, EventKind

pytestmark = [pytest.mark.long, pytest.mark.data]

PROCESSES = int(os.environ.get("QANAT_STORE_PROCESSES", "4"))
SECONDS = float(os.environ.get("QANAT_STORE_SECONDS", "3"))
LEASE_MS = 3_000

PROGRAM = """
import asyncio, json, sys, time
from contextlib import aclosing
from qanat.adapters.sqlite_store import SqliteStore
from qanat.cluster.store import *

path, name, seconds, lease_ms = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])

async def main():
    store = await SqliteStore.open(path)
    lease = await store.grant_lease(lease_ms)
    await store.commit([Absent(f"/brokers/{name}")], [Put(f"/brokers/{name}", b"", lease.lease_id)])
    kept = store.keep(lease)
    print("ready", flush=True)
    sys.stdin.readline()
    done, least_ms, longest_s = 0, lease_ms, 0.0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        counter = await store.get("/count")
        compare = Absent("/count") if counter is None else ModifiedAt("/count", counter.mod_revision)
        value = b"%d" % (1 + (0 if counter is None else int(counter.value)))
        begun = time.monotonic()
        outcome = await store.commit([compare], [Put("/count", value), Put(f"/n/{name}/{done:06}", b"")])
        longest_s = max(longest_s, time.monotonic() - begun)
        if isinstance(outcome, Committed):
            done += 1
            if done % 20 == 0:
                print(done, flush=True)
        if kept.remaining_ms() != 0:
            least_ms = min(least_ms, kept.remaining_ms())
        await asyncio.sleep(0.001)
    is_there = await store.get(f"/brokers/{name}") is not None
    print(json.dumps({"done": done, "least_ms": least_ms, "longest_s": longest_s, "is_there": is_there}), flush=True)
    await store.close()

asyncio.run(main())
"""


class Report(msgspec.Struct):
    """What a process says of itself in the end."""

    done: int
    least_ms: int
    longest_s: float
    is_there: bool


def start(path: Path, name: str, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(path), name, str(seconds), str(LEASE_MS)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


async def heard_below(store: SqliteStore, prefix: str, heard: list[tuple[int, EventKind, str]]) -> None:
    async with aclosing(store.watch(prefix, (await store.list(prefix)).revision)) as watcher:
        async for changes in watcher:
            assert not isinstance(changes, Compacted)
            heard += [(changes.revision, event.kind, event.key) for event in changes.events]


async def test_brokers_of_one_host_share_a_store_and_one_of_them_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    store = await SqliteStore.open(str(path))
    heard: list[tuple[int, EventKind, str]] = []
    watching = asyncio.create_task(heard_below(store, "/", heard))
    names = [f"b{number}" for number in range(PROCESSES)]
    processes = {name: await asyncio.to_thread(start, path, name, SECONDS) for name in names}
    try:
        for process in processes.values():
            go(process)
        victim = processes.pop("b0")
        assert victim.stdout is not None
        await asyncio.to_thread(victim.stdout.readline)
        victim.send_signal(signal.SIGKILL)
        acknowledged = [int(line) for line in (await asyncio.to_thread(victim.communicate))[0].split()]
        reports = {}
        for name, process in processes.items():
            output, _ = await asyncio.to_thread(process.communicate, timeout=SECONDS + 60)
            assert process.returncode == 0
            reports[name] = msgspec.json.decode(output.splitlines()[-1], type=Report)
    finally:
        for process in [victim, *processes.values()]:
            process.kill()
            process.communicate()

    print(reports)  # noqa: T201 - for the long form, with -s
    entries = {entry.key: entry for entry in (await store.list("/n/")).entries}
    by_name = {name: sum(key.startswith(f"/n/{name}/") for key in entries) for name in names}
    counter = await store.get("/count")
    assert counter is not None
    assert int(counter.value) == len(entries), "a commit happened twice, or half"
    assert by_name["b0"] >= max([20, *acknowledged]), "the killed process had been told of more"
    for name, report in reports.items():
        assert report.done == by_name[name] > 0
        assert report.is_there, f"{name} lost its lease; least that was left of it: {report.least_ms} ms"
        assert report.longest_s < LEASE_MS / 1000

    async with asyncio.timeout(60):
        while (await store.list("/brokers/")).entries:  # noqa: ASYNC110 - what is waited for is time
            await asyncio.sleep(0.1)
    last = (await store.list("/")).revision
    async with asyncio.timeout(60):
        while not heard or heard[-1][0] < last:  # noqa: ASYNC110 - the watcher does not tell
            await asyncio.sleep(0.02)
    watching.cancel()
    assert [key for _, kind, key in heard if kind is EventKind.PUT and key.startswith("/n/")] == sorted(
        entries, key=lambda key: entries[key].create_revision
    )
    assert {key for _, kind, key in heard if kind is EventKind.DELETE} == {f"/brokers/{name}" for name in names}
    await store.close()

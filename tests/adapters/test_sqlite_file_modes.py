"""The files of the SQLite metadata store hold verifiers of passwords: no other user of the machine reads them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from qanat.adapters.sqlite_store import SqliteStore
from qanat.cluster.store import Put

PROGRAM = """
import asyncio, sys
from qanat.adapters.sqlite_store import SqliteStore
from qanat.cluster.store import Put

async def main():
    store = await SqliteStore.open(sys.argv[1])
    await store.commit([], [Put(f"/n/{sys.argv[2]}", b"")])
    await store.close()

print("ready", flush=True)
sys.stdin.readline()
asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """The path of a store, in a process whose umask hides nothing."""
    before = os.umask(0)
    yield tmp_path / "metadata.db"
    os.umask(before)


def modes(path: Path) -> dict[str, int]:
    return {one.name: one.stat().st_mode & 0o777 for one in path.parent.iterdir()}


async def modes_while_open(path: Path) -> dict[str, int]:
    store = await SqliteStore.open(str(path))
    try:
        await store.commit([], [Put("/a", b"")])
        return modes(path)
    finally:
        await store.close()


def test_database_log_and_shared_memory_are_readable_by_their_owner_only(path: Path) -> None:
    found = asyncio.run(modes_while_open(path))

    assert found == {"metadata.db": 0o600, "metadata.db-wal": 0o600, "metadata.db-shm": 0o600}


def test_a_store_that_its_operator_shares_with_a_group_keeps_its_mode(path: Path) -> None:
    asyncio.run(modes_while_open(path))
    path.chmod(0o640)

    assert set(asyncio.run(modes_while_open(path)).values()) == {0o640}


def test_processes_that_create_the_store_at_the_same_time_share_it(path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(path)]
    started = [
        subprocess.Popen([*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    for one in started:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in started:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    for one in started:
        one.communicate(timeout=60)

    async def written() -> list[str]:
        store = await SqliteStore.open(str(path))
        try:
            return [entry.key for entry in (await store.list("/n/")).entries]
        finally:
            await store.close()

    assert [one.returncode for one in started] == [0] * 4
    assert asyncio.run(written()) == [f"/n/{number}" for number in range(4)]
    assert modes(path)["metadata.db"] == 0o600

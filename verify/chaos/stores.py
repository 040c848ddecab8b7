"""The metadata store of a run and its faults: SQLite in a file, or etcd on a machine of its own."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Protocol

from tools.build_etcd import FOLDER

from qanat.app.node.etcd_server import EtcdMember, MemberPlan, find_etcd
from verify.chaos.network import Network

ETCD = "etcd"
_CLIENT_PORT, _PEER_PORT = 2379, 2380


class Store(Protocol):
    """A metadata store that can fail."""

    @property
    def settings(self) -> tuple[str, ...]:
        """The brokers' settings for it."""
        ...

    @property
    def machine(self) -> str | None:
        """Its own machine, if it has one."""
        ...

    def start(self) -> None: ...
    def close(self) -> None: ...
    async def fail(self, seconds: float) -> None:
        """Be unavailable for so long."""
        ...


class SqliteFile:
    """One file that all brokers share. Its fault: another process holds the write lock."""

    settings: tuple[str, ...] = ()
    machine: str | None = None

    def __init__(self, path: Path) -> None:
        self._path = path

    def start(self) -> None:
        """The first broker creates it."""

    def close(self) -> None:
        """It ends with its brokers."""

    async def fail(self, seconds: float) -> None:
        lock = await asyncio.to_thread(self._lock)
        try:
            await asyncio.sleep(seconds)
        finally:
            lock.rollback()
            lock.close()

    def _lock(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, timeout=10.0, isolation_level=None, check_same_thread=False)
        database.execute("BEGIN EXCLUSIVE")
        return database


class Etcd:
    """One etcd member. Its fault: it is killed, and started again on its data."""

    machine: str | None = ETCD

    def __init__(self, folder: Path, network: Network) -> None:
        plan = MemberPlan("chaos", folder / "etcd", _CLIENT_PORT, _PEER_PORT, network.address(ETCD))
        self._member = EtcdMember(find_etcd([FOLDER]), plan, [plan], before=network.inside(ETCD))
        self.settings = ("metadata.store=etcd", f"metadata.etcd.endpoints={plan.client_url}")

    def start(self) -> None:
        self._member.start()
        self._member.wait()

    def close(self) -> None:
        self._member.kill()

    async def fail(self, seconds: float) -> None:
        self._member.kill()
        try:
            await asyncio.sleep(seconds)
        finally:
            self._member.start()

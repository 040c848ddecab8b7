"""Where a consumer keeps its offsets: at the broker, in an SQLite file, or behind any two functions.

A store of your own makes offsets and results one transaction: write both in one place, and load the offsets from there.
Blocking work runs in a worker thread, so that heartbeats go on.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, cast

from qanat.client.errors import ClientError
from qanat.connection.consuming.group_commits import CommittedOffset
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition

if TYPE_CHECKING:
    import sqlite3

Offsets = Mapping[TopicPartition, CommittedOffset]
Load = Callable[[str, Sequence[TopicPartition]], Any]
Save = Callable[[str, Mapping[TopicPartition, int]], Any]

_TABLE = """CREATE TABLE IF NOT EXISTS offsets (
    "group" TEXT, topic TEXT, "partition" INTEGER, "offset" INTEGER NOT NULL, leader_epoch INTEGER NOT NULL,
    PRIMARY KEY ("group", topic, "partition"))"""


class OffsetStoreError(ClientError):
    """An offset store failed; the message has its error."""


class OffsetStore(Protocol):
    """A place for offsets; both calls run on the client's I/O loop and must not block it."""

    async def load(self, group: str, partitions: Sequence[TopicPartition]) -> Offsets:
        """The offsets of these partitions, as far as there are any."""

    async def save(self, group: str, offsets: Offsets) -> None:
        """Keep these; whoever loads afterwards gets them."""


class GuardedStore:
    """A store whose own errors become one kind: the client must go on, and tell."""

    def __init__(self, store: OffsetStore) -> None:
        self._store = store

    async def load(self, group: str, partitions: Sequence[TopicPartition]) -> Offsets:
        try:
            return await self._store.load(group, partitions)
        except QanatError:
            raise
        except Exception as fault:
            raise OffsetStoreError(f"the offsets of group {group!r} cannot be loaded: {fault!r}") from fault

    async def save(self, group: str, offsets: Offsets) -> None:
        try:
            await self._store.save(group, offsets)
        except QanatError:
            raise
        except Exception as fault:
            raise OffsetStoreError(f"the offsets of group {group!r} cannot be saved: {fault!r}") from fault


class SqliteOffsets:
    """Offsets in an SQLite file, which several consumers of one machine may share.

    >>> consumer = Consumer("localhost:9092", "orders", group="billing", offset_store=SqliteOffsets("offsets.db"))
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self._path = path

    async def load(self, group: str, partitions: Sequence[TopicPartition]) -> Offsets:
        return await asyncio.to_thread(self._load, group, partitions)

    async def save(self, group: str, offsets: Offsets) -> None:
        await asyncio.to_thread(self._save, group, offsets)

    def _load(self, group: str, partitions: Sequence[TopicPartition]) -> Offsets:
        query = 'SELECT topic, "partition", "offset", leader_epoch FROM offsets WHERE "group" = ?'
        with closing(self._open()) as database:
            rows = database.execute(query, (group,)).fetchall()
        found = {TopicPartition(topic, number): CommittedOffset(offset, epoch) for topic, number, offset, epoch in rows}
        return {at: found[at] for at in partitions if at in found}

    def _save(self, group: str, offsets: Offsets) -> None:
        rows = [(group, at.topic, at.partition, one.offset, one.leader_epoch) for at, one in offsets.items()]
        with closing(self._open()) as database, database:
            database.executemany("INSERT OR REPLACE INTO offsets VALUES (?, ?, ?, ?, ?)", rows)

    def _open(self) -> sqlite3.Connection:
        import sqlite3  # Most consumers keep their offsets at the broker.

        database = sqlite3.connect(self._path, timeout=30)
        database.execute(_TABLE)
        return database


class CalledOffsets:
    """Offsets behind two functions, sync or async: `load(group, partitions)` returns a mapping of offsets,
    `save(group, offsets)` keeps one."""

    def __init__(self, load: Load, save: Save) -> None:
        self._load = load
        self._save = save

    async def load(self, group: str, partitions: Sequence[TopicPartition]) -> Offsets:
        found = await _called(self._load, group, partitions)
        return {at: CommittedOffset(int(offset)) for at, offset in dict(found or {}).items()}

    async def save(self, group: str, offsets: Offsets) -> None:
        await _called(self._save, group, {at: one.offset for at, one in offsets.items()})


async def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    if inspect.iscoroutinefunction(function):
        return await cast(Awaitable[Any], function(*arguments))
    return await asyncio.to_thread(function, *arguments)

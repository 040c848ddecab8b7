"""Record stores for tests: on real files, or on the simulated disk with an index that loses transactions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import apsw

from qanat.adapters.os_files import OsFiles
from qanat.app.edge.consuming.application import remove_database
from qanat.app.edge.consuming.partition_copy import CopyRecord, copy_settings
from qanat.app.edge.consuming.reading import Found, Query, select
from qanat.app.edge.consuming.record_index import RecordIndex, TopicOf
from qanat.app.edge.consuming.record_store import Arrived, RecordStore
from qanat.model.ids import TopicPartition
from qanat.testing.simulation.disk import SimDisk
from qanat.wire.records import Record

TOPIC = "prices"
P0, P1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
SEGMENT_BYTES = 2048


def made(
    offset: int, value: str = "", *, key: str | None = None, epoch: int = 0, time: int | None = None
) -> CopyRecord:
    """A record; its key is one of three unless it is given."""
    named = f"k{offset % 3}" if key is None else key
    content = (value or f"v{offset}").encode()
    return CopyRecord(Record(offset, 1000 + offset if time is None else time, named.encode(), content), epoch)


def run(first: int, end: int, tag: str = "v", *, epoch: int = 0) -> list[CopyRecord]:
    """Records from one offset to another, whose values begin with a tag."""
    return [made(offset, f"{tag}{offset}", epoch=epoch) for offset in range(first, end)]


def open_store(
    path: Path, topics: Sequence[str] = (TOPIC,), group: str = "g", retention_bytes: int = -1
) -> RecordStore:
    settings = copy_settings(SEGMENT_BYTES, retention_bytes)
    return RecordStore(OsFiles(), str(path), topics, group, settings, RecordIndex, remove_index=remove_database)


def stored(store: RecordStore, at: TopicPartition, records: Sequence[CopyRecord], refresh: str = "") -> int:
    return store.store([Arrived(at, records, refresh)], 0)


def caught_up(store: RecordStore) -> RecordStore:
    while not store.catch_up():
        """Another slice."""
    return store


def everything(store: RecordStore, query: Query | None = None) -> list[Found]:
    """All records that a query finds, page by page."""
    asked = query or Query(TOPIC)
    found: list[Found] = []
    after: tuple[int, ...] | None = ()
    while after is not None:
        records, after = select(store, asked, 3, after)
        found += records
    return found


def values(found: Iterable[Found]) -> list[str]:
    return [(one.record.value or b"").decode() for one in found]


class VolatileIndexes:
    """The index of a simulated machine: SQLite in memory, of which a power cut keeps an earlier commit.

    WAL with synchronous=NORMAL promises no more, and no less. Its transactions touch no file of the simulated disk, so
    a power cut there finds the index between two of them.
    """

    def __init__(self, saved: bytes | None = None) -> None:
        self._saved = saved
        self._open: apsw.Connection | None = None
        self.commits: list[bytes | None] = [saved]

    def open(self, path: str) -> RecordIndex:
        return _DurableRemovals(path, self)

    def sync(self) -> None:
        """What is committed now survives every power cut."""
        self.commits.clear()
        self.note()

    def connect(self, _: str) -> apsw.Connection:
        connection = apsw.Connection(":memory:")
        if self._saved is not None:
            connection.deserialize("main", self._saved)
        self._open = connection
        return connection

    def remove(self, _: str) -> None:
        self._saved = None

    def note(self) -> None:
        """A moment that a power cut may go back to."""
        if self._open is not None:
            self.commits.append(self._open.serialize("main"))

    def after_cut(self, pick: int) -> VolatileIndexes:
        """The index after a power cut: as it is now, as it was before, or gone."""
        self.note()
        kept = {0: self.commits[-1], 1: self.commits[max(len(self.commits) - 2, 0)], 2: None}[pick % 3]
        return VolatileIndexes(kept)


class _DurableRemovals(RecordIndex):
    """An index that notes which transactions are synced."""

    def __init__(self, path: str, indexes: VolatileIndexes) -> None:
        super().__init__(path, indexes.connect)
        self._indexes = indexes

    def remove(self, topic: TopicOf, partition: int, offsets: tuple[int, int], indexed_to: int) -> None:
        super().remove(topic, partition, offsets, indexed_to)
        self._indexes.sync()


def open_simulated(disk: SimDisk, indexes: VolatileIndexes) -> RecordStore:
    settings = copy_settings(SEGMENT_BYTES)
    return RecordStore(disk, "/data", [TOPIC], "g", settings, indexes.open, remove_index=indexes.remove)

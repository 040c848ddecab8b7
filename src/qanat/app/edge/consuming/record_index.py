"""The index in SQLite: which records there are, by offset, by key and by time, in each generation.

A topic has a number per generation, so that every index begins with both. Values are in the segments only. The index
is derived from them: it is never synced for their sake, and rebuilt where it is damaged or behind.

Rule 1: a row is added after its record is durable in the segments, so no row names a record that a crash can remove.
Rule 2: WAL with synchronous=NORMAL: a power cut takes the latest transactions and nothing else; `indexed_to` of each
        partition is in the same transaction as its rows. So it is also what was durable of the segments for certain.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import apsw

from qanat.adapters.sqlite_errors import check_library
from qanat.model.errors import DiskFullError, StorageError

FORMAT = 1
_IN_USE, _CLOSED = 0x51414E43, 0x51414E44
"""Application ids of the database: in use, or left by a clean shutdown."""
_SCHEMA = """
CREATE TABLE topics (
    id INTEGER PRIMARY KEY, generation INTEGER NOT NULL, name TEXT NOT NULL, UNIQUE (generation, name)
);
CREATE TABLE partitions (
    topic INTEGER NOT NULL, partition INTEGER NOT NULL, indexed_to INTEGER NOT NULL, records INTEGER NOT NULL,
    PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
CREATE TABLE records (
    topic INTEGER NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
    timestamp INTEGER NOT NULL, key BLOB, is_deletion INTEGER NOT NULL,
    PRIMARY KEY (topic, partition, offset)
) WITHOUT ROWID;
CREATE INDEX by_key ON records (topic, key, partition, offset) WHERE key IS NOT NULL;
CREATE INDEX by_time ON records (topic, timestamp, partition, offset);
"""
_ADD = "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?)"


class DamagedIndexError(StorageError):
    """The index cannot be read, or contradicts the segments: it is to be rebuilt."""


class TopicOf(NamedTuple):
    """A topic in one generation."""

    generation: int
    name: str


class IndexRow(NamedTuple):
    """A record as the index knows it."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    is_deletion: bool


class RecordIndex:
    """One database; belongs to one thread."""

    def __init__(self, path: str, connect: Callable[[str], apsw.Connection] = apsw.Connection) -> None:
        """Open or make it; raises `DamagedIndexError` where it is to be thrown away."""
        check_library(apsw.sqlite_lib_version())
        self.path = path
        self._topics: dict[TopicOf, int] = {}
        with self._translated("open"):
            self._database = connect(path)
        try:
            self._prepare()
        except StorageError:
            self.close()
            raise
        found = self._rows("SELECT generation, name, id FROM topics")
        self._topics = {TopicOf(generation, name): number for generation, name, number in found}

    def _prepare(self) -> None:
        self._rows("PRAGMA journal_mode = WAL")
        self._rows("PRAGMA synchronous = NORMAL")
        ((found,),) = self._rows("PRAGMA user_version")
        if found == 0:
            with self._writing():
                self._rows(_SCHEMA)
                self._rows(f"PRAGMA user_version = {FORMAT}")
        elif found != FORMAT:
            raise DamagedIndexError(f"{self.path} has format {found}, not {FORMAT}")
        elif self._rows("PRAGMA application_id") != [(_CLOSED,)]:
            self._check()
        self._rows(f"PRAGMA application_id = {_IN_USE}")

    def _check(self) -> None:
        """Look at every page, after a crash."""
        if self._rows("PRAGMA quick_check(1)") != [("ok",)]:
            raise DamagedIndexError(f"the index {self.path} is damaged")

    def close(self, *, is_clean: bool = False) -> None:
        """Close it; the next start looks at every page where that was not clean."""
        with suppress(apsw.Error, StorageError):
            if is_clean:
                self._rows(f"PRAGMA application_id = {_CLOSED}")
        with suppress(apsw.Error):
            self._database.close()

    # Writing

    def indexed_to(self, topic: TopicOf, partition: int) -> int | None:
        """The end of what is indexed of a partition; None where nothing is."""
        found = self._rows(
            "SELECT indexed_to FROM partitions WHERE topic = ? AND partition = ?", (self._id(topic), partition)
        )
        return found[0][0] if found else None

    def add(self, topic: TopicOf, partition: int, rows: Iterable[IndexRow], end_offset: int) -> None:
        """Records of a partition, up to an offset."""
        with self._writing():
            number = self._id(topic, is_made=True)
            values = [(number, partition, row.offset, row.timestamp, row.key, row.is_deletion) for row in rows]
            self._many(_ADD, values)
            self._rows(
                "INSERT INTO partitions VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE "
                "SET indexed_to = excluded.indexed_to, records = records + excluded.records",
                (number, partition, end_offset, len(values)),
            )

    def remove(self, topic: TopicOf, partition: int, offsets: tuple[int, int], indexed_to: int) -> None:
        """Forget the records of a partition from one offset to another; it is indexed up to `indexed_to`.

        Durably, with everything before: `indexed_to` says what was durable of the segments, so it must not come back
        once they are truncated.
        """
        self._rows("PRAGMA synchronous = FULL")
        try:
            self._remove(topic, partition, offsets, indexed_to)
        finally:
            self._rows("PRAGMA synchronous = NORMAL")

    def _remove(self, topic: TopicOf, partition: int, offsets: tuple[int, int], indexed_to: int) -> None:
        with self._writing():
            number = self._id(topic, is_made=True)
            self._rows(
                "DELETE FROM records WHERE topic = ? AND partition = ? AND offset >= ? AND offset < ?",
                (number, partition, *offsets),
            )
            self._rows(
                "INSERT INTO partitions VALUES (?, ?, ?, 0) ON CONFLICT DO UPDATE "
                "SET indexed_to = excluded.indexed_to, records = records - ?",
                (number, partition, indexed_to, self._database.changes()),
            )

    def forget(self, topic: TopicOf, partition: int, limit: int) -> bool:
        """Forget a partition, at most so many records at a time; whether that was all."""
        with self._writing():
            number = self._id(topic)
            self._rows(
                "DELETE FROM records WHERE (topic, partition, offset) IN "
                "(SELECT topic, partition, offset FROM records WHERE topic = ? AND partition = ? LIMIT ?)",
                (number, partition, limit),
            )
            if self._database.changes() == limit:
                return False
            self._rows("DELETE FROM partitions WHERE topic = ? AND partition = ?", (number, partition))
            return True

    # Reading

    def partitions(self) -> dict[tuple[TopicOf, int], int]:
        """All partitions that are indexed, and how many records there are of each."""
        found = self._rows("SELECT generation, name, partition, records FROM partitions JOIN topics ON id = topic")
        return {(TopicOf(generation, name), partition): records for generation, name, partition, records in found}

    def select(
        self,
        topic: TopicOf,
        *,
        limit: int,
        partition: int | None = None,
        key: bytes | None = None,
        offsets: tuple[int | None, int | None] = (None, None),
        times: tuple[int | None, int | None] = (None, None),
        after: tuple[int, ...] = (),
    ) -> list[IndexRow]:
        """Records by partition and offset; by time, where times and no key are given. `after` is of `place_of`."""
        conditions: list[str] = ["topic = ?"]
        values: list[Any] = [self._id(topic)]
        is_by_time = orders_by_time(key, times)
        pairs = (
            ("partition = ?", partition),
            ("key = ?", key),
            ("offset >= ?", offsets[0]),
            ("offset < ?", offsets[1]),
            ("timestamp >= ?", times[0]),
            ("timestamp < ?", times[1]),
        )
        for condition, value in pairs:
            if value is not None:
                conditions.append(condition)
                values.append(value)
        order = "timestamp, partition, offset" if is_by_time else "partition, offset"
        if after:
            conditions.append(f"({order}) > ({', '.join('?' * len(after))})")
            values += after
        index = "by_time" if is_by_time else "by_key" if key is not None else None
        hint = "NOT INDEXED" if index is None else f"INDEXED BY {index}"
        statement = (
            f"SELECT partition, offset, timestamp, key, is_deletion FROM records {hint} "
            f"WHERE {' AND '.join(conditions)} ORDER BY {order} LIMIT {limit:d}"
        )
        return [IndexRow(*row) for row in self._rows(statement, tuple(values))]

    def next_key(self, topic: TopicOf, after: bytes | None, from_key: bytes, to_key: bytes | None) -> bytes | None:
        """The first key after one, from a key on and below another."""
        condition, values = ("key >= ?", [from_key]) if after is None else ("key > ?", [after])
        if to_key is not None:
            condition += " AND key < ?"
            values.append(to_key)
        found = self._rows(
            f"SELECT key FROM records INDEXED BY by_key WHERE topic = ? AND key IS NOT NULL AND {condition} "
            "ORDER BY key LIMIT 1",
            (self._id(topic), *values),
        )
        return found[0][0] if found else None

    def latest(self, topic: TopicOf, key: bytes, partitions: Container[int]) -> IndexRow | None:
        """The last record of a key in its partition; of several partitions, the one with the latest time."""
        newest: IndexRow | None = None
        below = 2**31
        while True:
            found = self._rows(
                "SELECT partition, offset, timestamp, key, is_deletion FROM records INDEXED BY by_key "
                "WHERE topic = ? AND key = ? AND partition < ? ORDER BY partition DESC, offset DESC LIMIT 1",
                (self._id(topic), key, below),
            )
            if not found:
                return newest
            row = IndexRow(*found[0])
            below = row.partition
            if row.partition in partitions and (newest is None or row.timestamp > newest.timestamp):
                newest = row

    # Statements

    def _id(self, topic: TopicOf, *, is_made: bool = False) -> int:
        """The number of a topic; -1 where there is none."""
        found = self._topics.get(topic)
        if found is None and is_made:
            self._rows("INSERT OR IGNORE INTO topics (generation, name) VALUES (?, ?)", topic)
            ((found,),) = self._rows("SELECT id FROM topics WHERE (generation, name) = (?, ?)", topic)
            self._topics[topic] = found
        return -1 if found is None else found

    def _rows(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._translated("use"):
            return self._database.execute(statement, values).fetchall()

    def _many(self, statement: str, values: list[tuple[Any, ...]]) -> None:
        with self._translated("write"):
            self._database.executemany(statement, values)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._rows("BEGIN IMMEDIATE")
        topics = dict(self._topics)
        try:
            yield
            self._rows("COMMIT")
        except BaseException:
            self._topics = topics
            if self._database.in_transaction:
                with suppress(apsw.Error):
                    self._database.execute("ROLLBACK")
            raise

    @contextmanager
    def _translated(self, act: str) -> Iterator[None]:
        try:
            yield
        except apsw.FullError as fault:
            raise DiskFullError(f"cannot {act} the index {self.path}: the disk is full; free some space") from fault
        except (apsw.CorruptError, apsw.NotADBError) as fault:
            raise DamagedIndexError(f"the index {self.path} is damaged: {fault}") from fault
        except apsw.SQLError as fault:  # A table or index is missing.
            raise DamagedIndexError(f"the index {self.path} is not complete: {fault}") from fault
        except apsw.Error as fault:
            raise StorageError(f"cannot {act} the index {self.path}: {fault}") from fault


def orders_by_time(key: bytes | None, times: tuple[int | None, int | None]) -> bool:
    return key is None and times != (None, None)


def place_of(row: IndexRow, *, is_by_time: bool) -> tuple[int, ...]:
    """Where a listing continues after a row."""
    return (row.timestamp, row.partition, row.offset) if is_by_time else (row.partition, row.offset)

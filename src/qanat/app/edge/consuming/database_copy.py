"""A copy of the records as an SQLite database, for download: what is served at one moment, values included.

Texts are stored as TEXT, so that `key = 'AAPL'` finds them; what is no UTF-8 is a BLOB. It is made next to the data,
a slice at a time, while records arrive: of each partition up to the end that it had at the beginning.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import apsw
import msgspec

from qanat.model.errors import DiskFullError, StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qanat.app.edge.consuming.record_store import Key, RecordStore
    from qanat.app.edge.consuming.store_thread import StoreThread
    from qanat.model.ids import TopicPartition
    from qanat.wire.records import Record

FORMAT = 1
_FOLDER = "transfer"
_SLICE_BYTES = 1024 * 1024
_ATTEMPTS = 5
_SCHEMA = """
CREATE TABLE transfer (format INTEGER, type TEXT, consumer_group TEXT, created_ms INTEGER);
CREATE TABLE partitions (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, start_offset INTEGER NOT NULL, end_offset INTEGER NOT NULL,
    PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
CREATE TABLE records (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL, leader_epoch INTEGER NOT NULL,
    timestamp INTEGER NOT NULL, key, value, headers TEXT NOT NULL,
    PRIMARY KEY (topic, partition, offset)
) WITHOUT ROWID;
"""
_INDEXES = """
CREATE INDEX records_by_key ON records (topic, key);
CREATE INDEX records_by_time ON records (topic, timestamp);
"""


class ChangedError(StorageError):
    """What is served changed while it was copied."""


class _Stretch(NamedTuple):
    """What is copied of a partition."""

    key: Key
    start: int
    end: int
    edition: int

    @property
    def at(self) -> TopicPartition:
        return self.key[1]


def begin_transfer(path: str) -> None:
    """Remove what a crash has left; for a start."""
    folder = f"{path}/{_FOLDER}"
    with suppress(FileNotFoundError):
        for name in os.listdir(folder):
            os.unlink(f"{folder}/{name}")


async def copy_database(thread: StoreThread, path: str, about: tuple[str, str, int]) -> int:
    """Make a copy; returns a descriptor of it, whose file has no name any more. `about` is type, group and time."""
    with ThreadPoolExecutor(1, "consumer-transfer") as worker:
        for attempt in range(_ATTEMPTS):
            try:
                return await _copied(thread, worker, path, about)
            except ChangedError:
                if attempt == _ATTEMPTS - 1:
                    raise
    raise AssertionError("the last attempt returns or raises")


async def _copied(thread: StoreThread, worker: ThreadPoolExecutor, path: str, about: tuple[str, str, int]) -> int:
    loop = asyncio.get_running_loop()
    stretches = await thread.call(_stretches)
    target = _Target(f"{path}/{_FOLDER}")
    try:
        await loop.run_in_executor(worker, target.begin, about, stretches)
        for stretch in stretches:
            offset = stretch.start
            while offset < stretch.end:
                records, epochs, offset = await thread.call(_slice, stretch, offset)
                await loop.run_in_executor(worker, target.add, stretch, records, epochs)
        return await loop.run_in_executor(worker, target.finish)
    finally:
        await loop.run_in_executor(worker, target.remove)


def _stretches(store: RecordStore) -> list[_Stretch]:
    return [
        _Stretch(
            (store.generations.held(at).served, at),
            copy.extent.start,
            copy.extent.end,
            store.generations.edition(*at),
        )
        for at, copy in store.served.items()
    ]


def _slice(store: RecordStore, stretch: _Stretch, offset: int) -> tuple[list[Record], list[int], int]:
    """Some records, their epochs, and where to continue."""
    copy = store.copies.get(stretch.key)
    held = None if copy is None else copy.extent
    is_same = store.generations.edition(*stretch.at) == stretch.edition
    if copy is None or held is None or not is_same or held.start > offset:
        raise ChangedError("the records changed while they were copied; ask again")
    records, end = copy.read(offset, _SLICE_BYTES)
    records = [record for record in records if record.offset < stretch.end]
    return records, [held.epoch_at(record.offset) for record in records], end


class _Target:
    """The database that is being made; belongs to one thread at a time."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = f"{folder}/{os.getpid()}-{id(self)}.db"
        self._database: apsw.Connection | None = None

    def begin(self, about: tuple[str, str, int], stretches: Sequence[_Stretch]) -> None:
        os.makedirs(self._folder, exist_ok=True)
        os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        self._database = apsw.Connection(self._path)
        for statement in ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", "BEGIN", _SCHEMA):
            self._do(statement)
        self._do("INSERT INTO transfer VALUES (?, ?, ?, ?)", (FORMAT, *about))
        for one in stretches:
            self._do("INSERT INTO partitions VALUES (?, ?, ?, ?)", (*one.at, one.start, one.end))

    def add(self, stretch: _Stretch, records: Sequence[Record], epochs: Sequence[int]) -> None:
        rows = [
            (*stretch.at, one.offset, epoch, one.timestamp, _text(one.key), _text(one.value), _headers(one))
            for one, epoch in zip(records, epochs, strict=True)
        ]
        assert self._database is not None, "begun"
        try:
            self._database.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        except apsw.Error as fault:
            raise _fault(self._path, fault) from fault

    def finish(self) -> int:
        for statement in (_INDEXES, "COMMIT"):
            self._do(statement)
        self._close()
        return os.open(self._path, os.O_RDONLY)

    def remove(self) -> None:
        self._close()
        with suppress(FileNotFoundError):
            os.unlink(self._path)

    def _close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def _do(self, statement: str, values: tuple[object, ...] = ()) -> None:
        assert self._database is not None, "begun"
        try:
            self._database.execute(statement, values)
        except apsw.Error as fault:
            raise _fault(self._path, fault) from fault


def _fault(path: str, fault: apsw.Error) -> StorageError:
    if isinstance(fault, apsw.FullError):
        return DiskFullError(f"the disk is full: there is no room for a copy of the database at {path}")
    return StorageError(f"cannot write the copy of the database {path}: {fault}")


def _text(content: bytes | None) -> str | bytes | None:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def _headers(record: Record) -> str:
    found = {name: None if text is None else text.decode("utf-8", "replace") for name, text in record.headers}
    return msgspec.json.encode(found).decode()

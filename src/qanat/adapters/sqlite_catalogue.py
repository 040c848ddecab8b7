"""The catalogue of partitions and segments in SQLite, behind the port `log.directories.catalogue`.

One process owns the file (the data directory is locked), so the standard
library's SQLite is enough. A file that cannot be read counts as empty, and
so does one whose rows do not match their saved checksum (SQLite
notices broken pages, not flipped digits). Closing the directory replaces it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from qanat.log.directories.catalogue import PartitionRow, SegmentRow
from qanat.log.segments.batch_scan import Damage
from qanat.log.segments.sidecar import Sidecar
from qanat.model.errors import StorageError
from qanat.model.ids import TopicPartition
from qanat.wire.crc import crc32c

_SCHEMA = """
CREATE TABLE generation (name TEXT NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE partitions (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, topic_id TEXT NOT NULL,
    log_start_offset INTEGER NOT NULL, high_watermark INTEGER NOT NULL, cleaned_offset INTEGER NOT NULL,
    leader_epochs TEXT NOT NULL, producer_count INTEGER NOT NULL, active_since_ms INTEGER,
    PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
CREATE TABLE segments (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, base_offset INTEGER NOT NULL,
    sidecar TEXT NOT NULL, damage TEXT NOT NULL,
    PRIMARY KEY (topic, partition, base_offset)
) WITHOUT ROWID;
"""

_Segments = dict[tuple[str, int], list[SegmentRow]]


class SqliteCatalogue:
    """The catalogue in one file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def load(self, generation: str) -> Iterator[PartitionRow]:
        if not os.path.exists(self._path):
            return iter(())
        try:
            with contextlib.closing(sqlite3.connect(self._path)) as database:
                written = database.execute("SELECT name, checksum FROM generation").fetchall()
                rows = list(_load_rows(database)) if written and written[0][0] == generation else []
                is_sound = written == [(generation, _checksum(rows))]
        except (sqlite3.Error, msgspec.MsgspecError, TypeError, ValueError, OverflowError):
            return iter(())
        return iter(rows if is_sound else ())

    def save(self, generation: str, rows: Iterable[PartitionRow]) -> None:
        """Build a new file beside the old one and replace it."""
        rows = sorted(rows, key=lambda row: row.topic_partition)
        building = self._path + ".tmp"
        try:
            with contextlib.suppress(FileNotFoundError):
                os.remove(building)
            with contextlib.closing(sqlite3.connect(building)) as database, database:
                # A half-built file is thrown away, so there is nothing to roll back to.
                database.execute("PRAGMA journal_mode = OFF")
                database.executescript(_SCHEMA)
                database.execute("INSERT INTO generation VALUES (?, ?)", (generation, _checksum(rows)))
                for row in rows:
                    _save_row(database, row)
            _sync(building)
            os.replace(building, self._path)
            _sync(os.path.dirname(self._path) or ".")
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"cannot write the catalogue {self._path}: {error}") from error


def _sync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _checksum(rows: list[PartitionRow]) -> int:
    return crc32c(msgspec.json.encode(rows))


def _load_rows(database: sqlite3.Connection) -> Iterator[PartitionRow]:
    segments = _load_segments(database)
    partitions = database.execute("SELECT * FROM partitions ORDER BY topic, partition")
    for topic, partition, topic_id, start, watermark, cleaned, epochs, producers, since_ms in partitions:
        at, rows = TopicPartition(topic, partition), tuple(segments[topic, partition])
        yield PartitionRow(at, topic_id, start, watermark, cleaned, epochs, producers, since_ms, rows)


def _load_segments(database: sqlite3.Connection) -> _Segments:
    segments: _Segments = defaultdict(list)
    query = "SELECT * FROM segments ORDER BY topic, partition, base_offset"
    for topic, partition, base_offset, sidecar, damage in database.execute(query):
        row = SegmentRow(
            base_offset,
            msgspec.json.decode(sidecar, type=Sidecar),
            msgspec.json.decode(damage, type=tuple[Damage, ...]),
        )
        segments[topic, partition].append(row)
    return segments


def _save_row(database: sqlite3.Connection, row: PartitionRow) -> None:
    at = (row.topic_partition.topic, row.topic_partition.partition)
    database.execute(
        "INSERT INTO partitions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *at,
            row.topic_id,
            row.log_start_offset,
            row.high_watermark,
            row.cleaned_offset,
            row.leader_epochs,
            row.producer_count,
            row.active_since_ms,
        ),
    )
    database.executemany(
        "INSERT INTO segments VALUES (?, ?, ?, ?, ?)",
        ((*at, segment.base_offset, _json(segment.sidecar), _json(segment.damage)) for segment in row.segments),
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()

"""The catalogue of partitions and segments in SQLite, behind the port `log.catalogue`.

One process owns the file (the data directory is locked), so the standard
library's SQLite is enough. A file that cannot be read is as good as none; it
is replaced when the directory is closed.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from qanat.log.catalogue import PartitionRow, SegmentRow
from qanat.log.scan import Damage
from qanat.log.sidecar import Sidecar, TableChecksums
from qanat.model.errors import StorageError
from qanat.model.ids import TopicPartition

_SCHEMA = """
CREATE TABLE generation (name TEXT NOT NULL);
CREATE TABLE partitions (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, topic_id TEXT NOT NULL,
    log_start_offset INTEGER NOT NULL, high_watermark INTEGER NOT NULL, cleaned_offset INTEGER NOT NULL,
    leader_epochs TEXT NOT NULL, producer_count INTEGER NOT NULL, active_since_ms INTEGER,
    PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
CREATE TABLE segments (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, base_offset INTEGER NOT NULL,
    size INTEGER NOT NULL, next_offset INTEGER NOT NULL,
    max_timestamp INTEGER NOT NULL, max_timestamp_offset INTEGER NOT NULL,
    offset_index_crc INTEGER NOT NULL, time_index_crc INTEGER NOT NULL, aborted_index_crc INTEGER NOT NULL,
    damage TEXT NOT NULL,
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
            return
        with contextlib.closing(sqlite3.connect(self._path)) as database:
            try:
                if database.execute("SELECT name FROM generation").fetchall() != [(generation,)]:
                    return
                segments = _load_segments(database)
                partitions = database.execute("SELECT * FROM partitions ORDER BY topic, partition").fetchall()
            except (sqlite3.DatabaseError, msgspec.ValidationError):
                return
        for topic, partition, topic_id, start, watermark, cleaned, epochs, producers, since_ms in partitions:
            at, rows = TopicPartition(topic, partition), tuple(segments[topic, partition])
            yield PartitionRow(at, topic_id, start, watermark, cleaned, epochs, producers, since_ms, rows)

    def save(self, generation: str, rows: Iterable[PartitionRow]) -> None:
        """Build a new file beside the old one and put it in its place."""
        building = self._path + ".tmp"
        with contextlib.suppress(FileNotFoundError):
            os.remove(building)
        try:
            with contextlib.closing(sqlite3.connect(building)) as database, database:
                database.executescript(_SCHEMA)
                database.execute("INSERT INTO generation VALUES (?)", (generation,))
                for row in rows:
                    _save_row(database, row)
            os.replace(building, self._path)
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"cannot write the catalogue {self._path}: {error}") from error


def _load_segments(database: sqlite3.Connection) -> _Segments:
    segments: _Segments = defaultdict(list)
    query = "SELECT * FROM segments ORDER BY topic, partition, base_offset"
    for topic, partition, base, size, following, timestamp, timestamp_offset, *checksums, damage in database.execute(
        query
    ):
        offset_index, time_index, aborted_index = checksums
        sidecar = Sidecar(
            size=size,
            next_offset=following,
            max_timestamp=timestamp,
            max_timestamp_offset=timestamp_offset,
            checksums=TableChecksums(offset_index=offset_index, time_index=time_index, aborted_index=aborted_index),
        )
        found = msgspec.json.decode(damage, type=tuple[Damage, ...])
        segments[topic, partition].append(SegmentRow(base, sidecar, found))
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
        "INSERT INTO segments VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (_segment_values(at, s) for s in row.segments)
    )


def _segment_values(at: tuple[str, int], row: SegmentRow) -> tuple[object, ...]:
    sidecar = row.sidecar
    checksums = sidecar.checksums
    return (
        *at,
        row.base_offset,
        sidecar.size,
        sidecar.next_offset,
        sidecar.max_timestamp,
        sidecar.max_timestamp_offset,
        checksums.offset_index,
        checksums.time_index,
        checksums.aborted_index,
        msgspec.json.encode(row.damage).decode(),
    )

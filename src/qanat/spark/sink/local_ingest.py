"""Local ingest: a task writes batches for brokers on this machine into files, which the brokers ingest.

One file for each partition becomes a segment of its log (`log.segment_ingest`); a broker appends a small one. A task
with little to write sends it.
"""

from __future__ import annotations

import contextlib
import mmap
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from qanat.model.errors import CorruptBatchError, StorageError
from qanat.model.ids import TopicPartition
from qanat.spark.sink.local_brokers import LocalBrokers, LocalStaging
from qanat.spark.sink.outgoing_columns import EncodedBatch
from qanat.wire.staged import BATCHES_MAX, FILE_BYTES_MAX, INGEST_BYTES_MIN, hide, show, staged_batch

SENT_BYTES_MAX = 1024 * 1024
"""The first bytes of a task that sends rows itself are sent: most micro-batches are small."""
PARTITIONS_MAX = 16
"""Partitions of one task that get files."""


class Entry(NamedTuple):
    """One batch of the staged bytes."""

    topic: str
    partition: int
    size: int
    rows: int


@dataclass(frozen=True, slots=True)
class LocalIngestFile:
    """Batches of one partition, in a file beside the broker that leads it."""

    location: str
    name: str
    """Its path inside `location`, which the broker gets."""
    entries: tuple[Entry, ...]
    takes_small: bool = True
    """Whether the broker appends small files; an older one would make them segments, so they are sent."""

    @property
    def rows(self) -> int:
        return sum(entry.rows for entry in self.entries)

    @property
    def path(self) -> Path:
        return Path(self.location) / self.name

    def batches(self) -> Iterator[EncodedBatch]:
        """The batches to send for the file: one with its name, or its content."""
        if not self.takes_small and sum(entry.size for entry in self.entries) < INGEST_BYTES_MIN:
            yield from self.content()
            return
        at = TopicPartition(self.entries[0].topic, self.entries[0].partition)
        yield EncodedBatch(at, staged_batch(self.name, self.rows), self.rows, self.content, not self.takes_small)

    def content(self) -> Iterator[EncodedBatch]:
        """The batches of the file, writable; the broker checks their checksums."""
        try:
            with self.path.open("rb") as source:
                take = slices(mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_COPY))
        except (OSError, ValueError) as fault:
            raise StorageError(f"staged rows in {self.path} cannot be read any more: {fault}") from None
        for entry in self.entries:
            batch = take(entry.size)
            if len(batch) != entry.size:
                raise CorruptBatchError(f"the staged file {self.path} is shorter than its task reported")
            show(batch)
            yield EncodedBatch(TopicPartition(entry.topic, entry.partition), batch, entry.rows)
        with contextlib.suppress(OSError):
            self.path.unlink()

    def drop_folder(self) -> None:
        """Delete the file's folder, with files of failed tasks. A file that cannot be deleted does no harm."""
        shutil.rmtree(self.path.parent, ignore_errors=True)


class LocalIngestFiles:
    """The files of one task. Call `find` for a partition before `take`; `close` or `drop` them at the end."""

    def __init__(self, local_brokers: LocalBrokers | None, folder: str, sent_bytes_max: int = SENT_BYTES_MAX) -> None:
        """Without `local_brokers`, every batch is sent."""
        self._local_brokers = local_brokers
        self._folder = folder
        self._sent_bytes_max = sent_bytes_max
        self._seen_bytes = 0
        self._locations: dict[TopicPartition, LocalStaging | None] = {}
        self._files: dict[TopicPartition, list[_Growing]] = {}

    def knows(self, at: TopicPartition) -> bool:
        return at in self._locations

    async def find(self, at: TopicPartition) -> None:
        local_count = sum(location is not None for location in self._locations.values())
        is_looked_for = self._local_brokers is not None and local_count < PARTITIONS_MAX
        self._locations[at] = await self._local_brokers.location(at) if self._local_brokers and is_looked_for else None

    def take(self, one: EncodedBatch) -> bool:
        """Write a batch into a file; False if it must be sent. After its first, all of a partition's batches follow."""
        self._seen_bytes += len(one.batch)
        location = self._locations[one.at]
        if location is None or self._seen_bytes <= self._sent_bytes_max:
            return False
        files = self._files.setdefault(one.at, [])
        if not files or not files[-1].has_room(len(one.batch)):
            files.append(_Growing(location, f"{self._folder}/{uuid4().hex}"))
        files[-1].write(one)
        return True

    def close(self) -> tuple[LocalIngestFile, ...]:
        """Close all files; those of a partition are in order."""
        return tuple(file.close() for files in self._files.values() for file in files)

    def drop(self) -> None:
        """Delete files that were not ingested; other tasks may have files in the same folder."""
        for file in self.close():
            with contextlib.suppress(OSError):
                file.path.unlink()
            with contextlib.suppress(OSError):
                file.path.parent.rmdir()


def entry_of(one: EncodedBatch) -> Entry:
    return Entry(one.at.topic, one.at.partition, len(one.batch), one.rows)


def slices(data: bytearray | mmap.mmap) -> Callable[[int], memoryview]:
    """A function that returns the next bytes, so many at a time."""
    view, position = memoryview(data), 0

    def take(size: int) -> memoryview:
        nonlocal position
        position += size
        return view[position - size : position]

    return take


class _Growing:
    """A file that is being written."""

    def __init__(self, location: LocalStaging, name: str) -> None:
        self._location = location.path
        self._takes_small = location.takes_small
        self._name = name
        self._entries: list[Entry] = []
        self._size = 0
        with _storage_errors(location.path):
            path = Path(location.path) / name
            path.parent.mkdir(mode=0o700, exist_ok=True)
            self._file = FileIO(path, "xb")

    def has_room(self, size: int) -> bool:
        return self._size + size <= FILE_BYTES_MAX and len(self._entries) < BATCHES_MAX

    def write(self, one: EncodedBatch) -> None:
        hide(one.batch)
        with _storage_errors(self._location):
            written = self._file.write(one.batch)
            while written < len(one.batch):
                written += self._file.write(one.batch[written:])
        self._entries.append(entry_of(one))
        self._size += len(one.batch)

    def close(self) -> LocalIngestFile:
        with _storage_errors(self._location):
            self._file.close()
        return LocalIngestFile(self._location, self._name, tuple(self._entries), self._takes_small)


@contextlib.contextmanager
def _storage_errors(location: str) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        raise StorageError(f"rows cannot be staged beside the broker, in {location}: {fault}") from None

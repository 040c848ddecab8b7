"""Where encoded rows of an unfinished micro-batch wait: small ones in the task's message, others in a file.

A local file is mapped: its bytes go from the page cache to the socket, and only the pages with headers are copied.
Only what finished tasks report is ever read, so that tasks may fail, be repeated or run twice at a time.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import SEEK_END
from mmap import ACCESS_COPY, mmap
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from pyarrow import ArrowInvalid, fs  # type: ignore[import-untyped]

from qanat.model.errors import CorruptBatchError, QanatError
from qanat.model.ids import TopicPartition
from qanat.spark.outgoing import EncodedBatch
from qanat.wire.batch_header import check_extent, check_stored_batch

_log = logging.getLogger(__name__)

INLINE_BYTES = 1024 * 1024


class StagingError(QanatError):
    """A folder for staged rows that cannot be used."""


class Entry(NamedTuple):
    """A batch in the staged bytes."""

    topic: str
    partition: int
    size: int
    rows: int


@dataclass(frozen=True, slots=True)
class Staged:
    """What a task staged: the entries in order, and their bytes, here or in a file."""

    entries: tuple[Entry, ...]
    inline: bytes | None
    path: str | None

    @property
    def rows(self) -> int:
        return sum(entry.rows for entry in self.entries)


class Staging:
    """A folder that the driver and all executors reach: a path or an address that Arrow's file systems know."""

    def __init__(self, location: str) -> None:
        self._location = location

    def stage(self, folder: str, batches: Iterable[EncodedBatch]) -> Staged:
        """Keep batches until they are committed or dropped."""
        entries: list[Entry] = []
        held: list[bytearray | memoryview] = []
        held_bytes = 0
        with contextlib.ExitStack() as stack:
            path, sink = None, None
            for one in batches:
                entries.append(Entry(one.at.topic, one.at.partition, len(one.batch), one.rows))
                held.append(one.batch)
                held_bytes += len(one.batch)
                if sink is None and held_bytes > INLINE_BYTES:
                    with self._told("written to"):
                        system, root = self._open()
                        system.create_dir(f"{root}/{folder}", recursive=True)
                        path = f"{root}/{folder}/{uuid4().hex}.batches"
                        sink = stack.enter_context(system.open_output_stream(path))
                if sink is not None:
                    with self._told("written to"):
                        for batch in held:
                            sink.write(batch)
                    held.clear()
            if sink is not None:
                with self._told("written to"):
                    sink.close()
                return Staged(tuple(entries), None, path)
        return Staged(tuple(entries), b"".join(held), None)

    def read(self, staged: Staged) -> Iterator[EncodedBatch]:
        """The batches of a task, to be read and written to; their checksums are looked at by the broker."""
        with contextlib.ExitStack() as stack:
            with self._told("read from"):
                take = self._taking(staged, stack)
            for entry in staged.entries:
                batch = take(entry.size)
                if len(batch) != entry.size:
                    raise CorruptBatchError(f"the staged file {staged.path} is shorter than its task said")
                if not check_extent(batch).crc:
                    check_stored_batch(batch)  # What has none would get one (`give_producer`).
                yield EncodedBatch(TopicPartition(entry.topic, entry.partition), batch, entry.rows)

    def take(self, staged: Staged) -> Iterator[EncodedBatch]:
        """The same for the last time: a local file goes as soon as its last batch is given, and its memory when that
        has been used, so that giving back gigabytes is not what a commit ends with."""
        yield from self.read(staged)
        if staged.path is not None and isinstance(self._open()[0], fs.LocalFileSystem):
            with contextlib.suppress(OSError):  # What cannot be deleted does no harm; `drop` tells of it.
                Path(staged.path).unlink()

    def _taking(self, staged: Staged, stack: contextlib.ExitStack) -> Callable[[int], bytearray | memoryview]:
        """A function that gives so many of the staged bytes at a time."""
        if staged.path is None:
            return _slices(bytearray(staged.inline or b""))
        system, _ = self._open()
        if isinstance(system, fs.LocalFileSystem):
            # What is written to is a page of our own then, the rest is the file's: 61 bytes of each batch change.
            with Path(staged.path).open("rb") as source:
                is_empty = not source.seek(0, SEEK_END)
                return _slices(bytearray() if is_empty else mmap(source.fileno(), 0, access=ACCESS_COPY))
        stream = stack.enter_context(system.open_input_stream(staged.path))
        return lambda size: bytearray(stream.read(size))

    def drop(self, folder: str) -> None:
        """Forget what was staged in a folder, by failed tasks as well. What cannot be deleted does no harm."""
        try:
            with self._told("cleared"), contextlib.suppress(FileNotFoundError, NotADirectoryError):
                system, root = self._open()
                system.delete_dir(f"{root}/{folder}")
        except StagingError as fault:
            _log.warning("%s", fault)

    @contextlib.contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ArrowInvalid, NotImplementedError) as fault:
            raise StagingError(
                f"rows wait for their transaction in {self._location}, which cannot be {doing}: {fault}; option "
                "stagingLocation names a folder that the driver and all executors reach"
            ) from None

    def _open(self) -> tuple[fs.FileSystem, str]:
        if "://" not in self._location and not self._location.startswith("file:"):
            return fs.LocalFileSystem(), self._location.rstrip("/")
        location = self._location
        if location.startswith("file:"):
            return fs.LocalFileSystem(), "/" + location.removeprefix("file:").lstrip("/").rstrip("/")
        # Hadoop's names for what Arrow calls s3.
        for name in ("s3a://", "s3n://"):
            location = "s3://" + location.removeprefix(name) if location.startswith(name) else location
        system, root = fs.FileSystem.from_uri(location)
        return system, root.rstrip("/")


def _slices(data: bytearray | mmap) -> Callable[[int], memoryview]:
    view, position = memoryview(data), 0

    def take(size: int) -> memoryview:
        nonlocal position
        position += size
        return view[position - size : position]

    return take

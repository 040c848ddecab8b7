"""Staging: encoded rows of an unfinished micro-batch, small ones in the task's message, others in files.

Most rows are in files of brokers, on this machine (`local_ingest`) or on others (`remote_ingest`). All other rows of a
task share a file, which the driver sends: a local one is mapped, so that bytes go from the page cache to the socket,
and only the pages with headers are copied.

Rule: only files that finished tasks report are read, so that tasks may fail, be retried or run twice at a time.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import SEEK_END
from mmap import ACCESS_COPY, mmap
from pathlib import Path
from uuid import uuid4

from pyarrow import ArrowInvalid, fs  # type: ignore[import-untyped]

from qanat.model.errors import CorruptBatchError, QanatError
from qanat.model.ids import TopicPartition
from qanat.spark.sink.local_ingest import Entry, LocalIngestFile, entry_of, slices
from qanat.spark.sink.outgoing_columns import EncodedBatch
from qanat.spark.sink.remote_ingest import RemoteFile
from qanat.wire.batch_header import check_extent

_log = logging.getLogger(__name__)

INLINE_BYTES = 1024 * 1024


class StagingError(QanatError):
    """A folder for staged rows that cannot be used."""


@dataclass(frozen=True, slots=True)
class Staged:
    """The staged rows of a task: entries in order with their bytes, inline or in a file, then files at brokers."""

    entries: tuple[Entry, ...]
    inline: bytes | None
    path: str | None
    local_files: tuple[LocalIngestFile, ...] = ()
    remote_files: tuple[RemoteFile, ...] = ()

    @property
    def rows(self) -> int:
        in_files = [*(one.rows for one in self.local_files), *(one.rows for one in self.remote_files)]
        return sum(entry.rows for entry in self.entries) + sum(in_files)


class Staging:
    """A folder that the driver and all executors reach: a path, or an address of Arrow's file systems."""

    def __init__(self, location: str) -> None:
        self._location = location

    def stage(self, folder: str, batches: Iterable[EncodedBatch]) -> Staged:
        """Store batches until they are committed or dropped."""
        with StageWriter(self, folder) as writer:
            for one in batches:
                writer.add(one)
            return writer.close()

    def create(self, folder: str) -> tuple[str, fs.NativeFile]:
        """A new file in a folder, and its path."""
        with self.staging_errors("written to"):
            system, root = self._open()
            system.create_dir(f"{root}/{folder}", recursive=True)
            path = f"{root}/{folder}/{uuid4().hex}.batches"
            return path, system.open_output_stream(path)

    def read(self, staged: Staged) -> Iterator[EncodedBatch]:
        """The batches of a task, writable; the broker checks their checksums."""
        with contextlib.ExitStack() as stack:
            with self.staging_errors("read from"):
                take = self._taking(staged, stack)
            for entry in staged.entries:
                batch = take(entry.size)
                if len(batch) != entry.size:
                    raise CorruptBatchError(f"the staged file {staged.path} is shorter than its task reported")
                check_extent(batch)
                yield EncodedBatch(TopicPartition(entry.topic, entry.partition), batch, entry.rows)

    def take(self, staged: Staged) -> Iterator[EncodedBatch]:
        """The same for the last time: a local file is deleted after its last batch, and its memory freed after the use
        of that batch, so that a commit does not end with freeing gigabytes."""
        yield from self.read(staged)
        if staged.path is not None and isinstance(self._open()[0], fs.LocalFileSystem):
            with contextlib.suppress(OSError):  # A file that cannot be deleted does no harm; `drop` logs it.
                Path(staged.path).unlink()
        for local_file in staged.local_files:
            yield from local_file.batches()
        for remote_file in staged.remote_files:
            yield from remote_file.batches()

    def _taking(self, staged: Staged, stack: contextlib.ExitStack) -> Callable[[int], bytearray | memoryview]:
        """A function that returns the next staged bytes, so many at a time."""
        if staged.path is None:
            return slices(bytearray(staged.inline or b""))
        system, _ = self._open()
        if isinstance(system, fs.LocalFileSystem):
            # Copy on write: 61 bytes of each batch change, and only their pages are copied.
            with Path(staged.path).open("rb") as source:
                is_empty = not source.seek(0, SEEK_END)
                return slices(bytearray() if is_empty else mmap(source.fileno(), 0, access=ACCESS_COPY))
        stream = stack.enter_context(system.open_input_stream(staged.path))
        return lambda size: bytearray(stream.read(size))

    def drop(self, folder: str, dropped: Iterable[Staged] = ()) -> None:
        """Delete staged files in a folder and beside brokers, of failed tasks as well.

        A file that cannot be deleted does no harm.
        """
        for local_files in {file.path.parent: file for staged in dropped for file in staged.local_files}.values():
            local_files.drop_folder()
        try:
            with self.staging_errors("cleared"), contextlib.suppress(FileNotFoundError, NotADirectoryError):
                system, root = self._open()
                system.delete_dir(f"{root}/{folder}")
        except StagingError as fault:
            _log.warning("%s", fault)

    @contextlib.contextmanager
    def staging_errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ArrowInvalid, NotImplementedError) as fault:
            raise StagingError(
                f"rows are staged in {self._location}, which cannot be {doing}: {fault}; option stagingLocation names "
                "a folder that the driver and all executors reach"
            ) from None

    def _open(self) -> tuple[fs.FileSystem, str]:
        if "://" not in self._location and not self._location.startswith("file:"):
            return fs.LocalFileSystem(), self._location.rstrip("/")
        location = self._location
        if location.startswith("file:"):
            return fs.LocalFileSystem(), "/" + location.removeprefix("file:").lstrip("/").rstrip("/")
        # Hadoop's names for Arrow's s3.
        for name in ("s3a://", "s3n://"):
            location = "s3://" + location.removeprefix(name) if location.startswith(name) else location
        system, root = fs.FileSystem.from_uri(location)
        return system, root.rstrip("/")


class StageWriter:
    """Collects the batches of one task that the driver sends: in memory, then in a file. Use it in a `with`."""

    def __init__(self, staging: Staging, folder: str) -> None:
        self._staging = staging
        self._folder = folder
        self._entries: list[Entry] = []
        self._held: list[bytearray | memoryview] = []
        self._held_bytes = 0
        self._path: str | None = None
        self._sink: fs.NativeFile | None = None

    def __enter__(self) -> StageWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._sink is not None:
            self._sink.close()

    def add(self, one: EncodedBatch) -> None:
        self._entries.append(entry_of(one))
        self._held.append(one.batch)
        self._held_bytes += len(one.batch)
        if self._sink is None and self._held_bytes > INLINE_BYTES:
            self._path, self._sink = self._staging.create(self._folder)
        if self._sink is not None:
            with self._staging.staging_errors("written to"):
                for batch in self._held:
                    self._sink.write(batch)
            self._held.clear()

    def close(self) -> Staged:
        if self._sink is not None:
            with self._staging.staging_errors("written to"):
                self._sink.close()
        inline = b"".join(self._held) if self._sink is None else None
        return Staged(tuple(self._entries), inline, self._path)

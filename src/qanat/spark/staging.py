"""Where encoded rows of an unfinished micro-batch wait: small ones in the task's message, others in a file.

Only what finished tasks report is ever read, so that tasks may fail, be repeated or run twice at a time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple
from uuid import uuid4

from pyarrow import fs  # type: ignore[import-untyped]

from qanat.model.errors import CorruptBatchError
from qanat.model.ids import TopicPartition
from qanat.spark.rows import EncodedBatch
from qanat.wire.batch_header import check_stored_batch

INLINE_BYTES = 1024 * 1024


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
        held = bytearray()
        with contextlib.ExitStack() as stack:
            path, sink = None, None
            for one in batches:
                entries.append(Entry(one.at.topic, one.at.partition, len(one.batch), one.rows))
                held += one.batch
                if len(held) > INLINE_BYTES:
                    if sink is None:
                        system, root = self._open()
                        system.create_dir(f"{root}/{folder}", recursive=True)
                        path = f"{root}/{folder}/{uuid4().hex}.batches"
                        sink = stack.enter_context(system.open_output_stream(path))
                    sink.write(held)
                    held = bytearray()
            if sink is not None:
                sink.write(held)
                return Staged(tuple(entries), None, path)
        return Staged(tuple(entries), bytes(held), None)

    def read(self, staged: Staged) -> Iterator[EncodedBatch]:
        """The batches of a task, one in memory at a time; their checksums are looked at again."""
        with contextlib.ExitStack() as stack:
            if staged.path is not None:
                system, _ = self._open()
                source = stack.enter_context(system.open_input_stream(staged.path))
                take = source.read
            else:
                view, position = memoryview(staged.inline or b""), 0

                def take(size: int) -> memoryview:
                    nonlocal position
                    position += size
                    return view[position - size : position]

            for entry in staged.entries:
                batch = bytearray(take(entry.size))
                if len(batch) != entry.size:
                    raise CorruptBatchError(f"the staged file {staged.path} is shorter than its task said")
                check_stored_batch(batch)
                yield EncodedBatch(TopicPartition(entry.topic, entry.partition), batch, entry.rows)

    def drop(self, folder: str) -> None:
        """Forget what was staged in a folder, by failed tasks as well."""
        system, root = self._open()
        with contextlib.suppress(FileNotFoundError):
            system.delete_dir(f"{root}/{folder}")

    def _open(self) -> tuple[fs.FileSystem, str]:
        if "://" not in self._location and not self._location.startswith("file:"):
            return fs.LocalFileSystem(), self._location.rstrip("/")
        location = self._location
        if location.startswith("file:"):
            return fs.LocalFileSystem(), "/" + location.removeprefix("file:").lstrip("/").rstrip("/")
        system, root = fs.FileSystem.from_uri(location)
        return system, root.rstrip("/")

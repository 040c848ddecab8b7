"""The disk's side of staged files: chunks of uploads, and batches that are read back to be appended.

A file below `staging/` grows chunk by chunk. It is not durable, and need not be: nothing in it was promised to anybody
before the log has it. What a crash leaves of it is checked like everything else when it is appended or ingested.

Rule: one worker at a time writes to a file, and none while it is read (`runtime.staged_files`).
"""

from __future__ import annotations

from contextlib import closing, suppress

from msgspec import Struct

from qanat.log.files import File, Files
from qanat.model.errors import (
    BatchTooLargeError,
    CorruptBatchError,
    InvalidRecordError,
    NotIngestedError,
    StorageError,
)
from qanat.wire.batch_header import HEADER_SIZE, BatchHeader, batch_size_at, check_batch
from qanat.wire.records import set_producer
from qanat.wire.staged import BATCHES_MAX, show
from qanat.wire.staged_upload import StagedChunk

_ATTEMPTS = 3
"""To create a file in a folder that another worker may be removing."""


class StagedPart(Struct, frozen=True):
    """One batch of a staged file."""

    position: int
    size: int
    records: int


def write_chunk(files: Files, root: str, chunk: StagedChunk) -> int:
    """Write a chunk to its file below `root`, or find it there; returns the size of the file."""
    path = f"{root}/{chunk.name}"
    if not files.exists(path):
        if chunk.position:
            raise NotIngestedError(
                f"{chunk.name} is not on this broker up to byte {chunk.position}: another one led its partition, "
                "or the file has expired"
            )
        file = _created(files, path)
    else:
        file = files.open(path)
    with closing(file):
        return _write(file, chunk)


def _write(file: File, chunk: StagedChunk) -> int:
    size = file.size()
    if chunk.position > size:
        raise NotIngestedError(f"{chunk.name} has {size} bytes here, and no byte {chunk.position} yet")
    known = min(size - chunk.position, len(chunk.data))
    if known and file.read(chunk.position, known) != chunk.data[:known]:
        raise InvalidRecordError(f"{chunk.name} has other bytes from {chunk.position} on")
    rest = chunk.data[known:]
    if not rest:
        return size
    try:
        return size + file.write((rest,), size)
    except StorageError:
        with suppress(StorageError):
            file.truncate(size)
        raise


def _created(files: Files, path: str) -> File:
    for attempt in range(1, _ATTEMPTS + 1):
        files.make_directory(path.rpartition("/")[0])
        try:
            return files.open(path, create=True)
        except StorageError:
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


def remove_staged(files: Files, root: str, name: str) -> None:
    """Delete a file, and its folder if that is empty then."""
    path = f"{root}/{name}"
    files.remove(path)
    with suppress(StorageError):  # It has other files.
        files.remove_directory(path.rpartition("/")[0])


def staged_sizes(files: Files, root: str) -> dict[str, int]:
    """The size of every staged file, by name."""
    found: dict[str, int] = {}
    if not files.exists(root):
        return found
    for folder in files.list(root):
        with suppress(StorageError):  # A folder that is being deleted, or something else.
            for name in files.list(f"{root}/{folder}"):
                with suppress(StorageError), closing(files.open(f"{root}/{folder}/{name}")) as file:
                    found[f"{folder}/{name}"] = file.size()
    return found


def open_staged(files: Files, path: str) -> File:
    try:
        return files.open(path)
    except StorageError as fault:
        raise NotIngestedError(f"there is no staged file: {fault}") from None


def staged_parts(file: File, record_count: int, batch_bytes_max: int) -> list[StagedPart]:
    """The batches of a staged file; raises unless all are sound, fill the file, and have so many records."""
    parts: list[StagedPart] = []
    position, size = 0, file.size()
    while position < size:
        head = file.read(position, HEADER_SIZE)
        length = batch_size_at(head, 0) if len(head) == HEADER_SIZE else 0
        if not HEADER_SIZE <= length <= size - position or len(parts) == BATCHES_MAX:
            raise CorruptBatchError(f"{file.path} holds no batch at byte {position}, or more than {BATCHES_MAX}")
        if length > batch_bytes_max:
            raise BatchTooLargeError(f"a staged batch has {length} bytes, max.message.bytes is {batch_bytes_max}")
        batch = file.read(position, length)
        show(batch)
        parts.append(StagedPart(position, length, check_batch(batch).record_count))
        position += length
    found = sum(part.records for part in parts)
    if found != record_count:
        raise CorruptBatchError(f"{file.path} has {found} records where {record_count} were announced")
    return parts


def read_part(file: File, part: StagedPart, producer: BatchHeader, sequence: int) -> bytearray:
    """A batch of a staged file as its producer would send it. Its checksum is as right or wrong as in the file."""
    batch = file.read(part.position, part.size)
    if len(batch) != part.size:
        raise CorruptBatchError(f"{file.path} has become shorter")
    show(batch)
    if producer.producer_id >= 0:
        set_producer(
            batch,
            producer.producer_id,
            producer.producer_epoch,
            sequence,
            is_transactional=producer.is_transactional,
        )
    return batch

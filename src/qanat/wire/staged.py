"""Staged batches: named instead of sent. They are in a file in the data directory, which the broker ingests.

A producer sends a header like any batch's, with its own magic, and the file's name in place of records:

    producer, epoch, sequence, transactional    apply to the whole file, as to one batch
    record count, last offset delta             of the whole file
    checksum                                    of what is sent; the batches in the file have theirs

A broker without this feature refuses it for its magic.

In the file batches are hidden: without a base offset, and with every bit of their checksum inverted. Headers are
rewritten when the file is ingested; after a power loss, a part of them may be on the disk and a part not, and a
half-written header must not look like a batch without a producer, which every consumer would see. See
docs/decisions/0011-staged-files.md.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from qanat.model.errors import CorruptBatchError, InvalidRecordError
from qanat.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP
from qanat.wire.batch_header import (
    BYTES_BEFORE_LENGTH,
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    MAGIC_AT,
    BatchHeader,
    Buffer,
    batch_crc,
    read_header,
    write_header,
)

STAGED_MAGIC = 113
UPLOAD_MAGIC = 114
"""Of a chunk of such a file (`wire.staged_upload`)."""
_MAGICS = (STAGED_MAGIC, UPLOAD_MAGIC)
FOLDER = "staging"
"""The folder of such files, in the broker's data directory."""
FEATURE = "staging.version"
"""The feature of brokers that take uploads, and append small files (ApiVersions)."""
_NAME = re.compile(r"[0-9A-Za-z-]{1,100}/[0-9a-f]{32}")
_NO_EPOCH = -1
_NO_OFFSET = -1
_ALL_BITS = 0xFFFFFFFF
BATCHES_MAX = 4096
"""In one file."""
FILE_BYTES_MAX = 128 * 1024 * 1024
"""A broker checks a file at once, and it must fit into a segment of the default size."""
INGEST_BYTES_MIN = 32 * 1024 * 1024
"""A smaller file is appended to the active segment: a log should not have too many segments."""


class StagedFile(NamedTuple):
    """The sent part of a staged file: the header, and a name inside `FOLDER`."""

    header: BatchHeader
    name: str


def staged_batch(name: str, record_count: int) -> bytearray:
    """The batch to send for a file; a producer's identity can be written into it as into any batch."""
    content = name.encode()
    batch = bytearray(HEADER_SIZE) + content
    header = BatchHeader(
        base_offset=0,
        batch_length=len(batch) - BYTES_BEFORE_LENGTH,
        leader_epoch=_NO_EPOCH,
        magic=STAGED_MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=record_count - 1,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=record_count,
    )
    write_header(batch, 0, header)
    write_header(batch, 0, header._replace(crc=batch_crc(batch)))
    return batch


def hide(batch: bytearray | memoryview) -> None:
    """Hide a batch for a staged file."""
    header = read_header(batch)
    write_header(batch, 0, header._replace(base_offset=_NO_OFFSET, crc=header.crc ^ _ALL_BITS))


def show(batch: bytearray | memoryview) -> None:
    """Make a hidden batch of a staged file a batch again; it may be one already, where an ingest was interrupted."""
    header = read_header(batch)
    if header.base_offset == _NO_OFFSET:
        write_header(batch, 0, header._replace(base_offset=0, crc=header.crc ^ _ALL_BITS))


def is_staged(batch: Buffer) -> bool:
    """Whether this is no batch, but the name of a staged file or a chunk of one."""
    return len(batch) > HEADER_SIZE and batch[MAGIC_AT] in _MAGICS


def checked_name(raw: memoryview) -> str:
    """A file's name; raises where it might lead out of the folder."""
    name = bytes(raw).decode("ascii", "replace")
    if not _NAME.fullmatch(name):
        raise InvalidRecordError(f"{name!r} is no name of a staged file: that is a folder and 32 hexadecimal digits")
    return name


def read_staged(batch: Buffer) -> StagedFile:
    """The named file; raises as for any batch where something about it is wrong."""
    header = read_header(batch)
    if header.size != len(batch) or header.crc != batch_crc(batch):
        raise CorruptBatchError("the name of a staged file came with a wrong length or checksum")
    name = checked_name(memoryview(batch)[HEADER_SIZE:])
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        raise InvalidRecordError(f"a staged file of {header.record_count} records has none, or another last offset")
    is_known = header.producer_id >= 0
    if is_known != (header.producer_epoch >= 0) or is_known != (header.base_sequence >= 0):
        raise InvalidRecordError(f"a staged file of producer {header.producer_id} needs an epoch and a sequence number")
    if header.is_transactional and not is_known:
        raise InvalidRecordError("a staged file in a transaction needs a producer id")
    if header.attributes & (CODEC_MASK | CONTROL):
        raise InvalidRecordError("a staged file is neither compressed as a whole nor of control batches")
    return StagedFile(header, name)

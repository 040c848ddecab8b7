"""Staged uploads: chunks of a staged file, for a broker on another machine. It stores them until the file is named.

A chunk is sent like a batch to the leader of the partition that the file is for, with its own magic, without a producer
and without records. After the header:

    name's length 2 · name · position 8 · bytes of the file

The checksum covers all of it. `position` is where the bytes belong in the file, `DROPPED` deletes the file. The base
offset in the answer is the size of the file. See docs/decisions/0015-staged-uploads.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from qanat.model.errors import CorruptBatchError, InvalidRecordError
from qanat.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP
from qanat.wire.batch_header import (
    BYTES_BEFORE_LENGTH,
    HEADER_SIZE,
    MAGIC_AT,
    BatchHeader,
    Buffer,
    batch_crc,
    read_header,
    write_header,
)
from qanat.wire.staged import FILE_BYTES_MAX, UPLOAD_MAGIC, checked_name

DROPPED = -1
"""The position of a chunk that deletes its file."""
_NAME_LENGTH = Struct(">H")
_POSITION = Struct(">q")


class StagedChunk(NamedTuple):
    """Bytes of a staged file, and where they belong."""

    name: str
    position: int
    data: memoryview

    @property
    def end(self) -> int:
        return self.position + len(self.data)


def upload_batch(name: str, position: int, pieces: Iterable[Buffer] = ()) -> bytearray:
    """What to send for a chunk, which is `pieces` one after another."""
    raw = name.encode()
    batch = bytearray(HEADER_SIZE) + _NAME_LENGTH.pack(len(raw)) + raw + _POSITION.pack(position)
    for piece in pieces:
        batch += piece
    header = BatchHeader(
        base_offset=0,
        batch_length=len(batch) - BYTES_BEFORE_LENGTH,
        leader_epoch=-1,
        magic=UPLOAD_MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=-1,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=0,
    )
    write_header(batch, 0, header)
    write_header(batch, 0, header._replace(crc=batch_crc(batch)))
    return batch


def is_upload(batch: Buffer) -> bool:
    return len(batch) > HEADER_SIZE and batch[MAGIC_AT] == UPLOAD_MAGIC


def read_upload(batch: Buffer) -> StagedChunk:
    """The chunk; raises as for any batch where something about it is wrong."""
    header = read_header(batch)
    if header.size != len(batch) or header.crc != batch_crc(batch):
        raise CorruptBatchError("a chunk of a staged file came with a wrong length or checksum")
    if header.producer_id >= 0 or header.record_count or header.attributes:
        raise InvalidRecordError("a chunk of a staged file has no producer, no records and no attributes")
    content = memoryview(batch)[HEADER_SIZE:]
    fixed = _NAME_LENGTH.size + _POSITION.size
    name_length = _NAME_LENGTH.unpack_from(content)[0] if len(content) >= fixed else len(content)
    if fixed + name_length > len(content):
        raise InvalidRecordError("a chunk of a staged file is shorter than its name and its position")
    name = checked_name(content[_NAME_LENGTH.size : _NAME_LENGTH.size + name_length])
    position = _POSITION.unpack_from(content, _NAME_LENGTH.size + name_length)[0]
    data = content[fixed + name_length :]
    if position < DROPPED or (position == DROPPED and data):
        raise InvalidRecordError(f"a chunk of a staged file cannot begin at byte {position}")
    if position + len(data) > FILE_BYTES_MAX:
        raise InvalidRecordError(f"a staged file has at most {FILE_BYTES_MAX} bytes")
    return StagedChunk(name, position, data)

"""The 61 bytes in front of every record batch: all that the hot path reads.

Kafka's message format v2, big-endian:

    base_offset 8 · batch_length 4 · leader_epoch 4 · magic 1 · crc 4 ·
    attributes 2 · last_offset_delta 4 · base_timestamp 8 · max_timestamp 8 ·
    producer_id 8 · producer_epoch 2 · base_sequence 4 · record_count 4

`batch_length` counts the bytes after it; the checksum covers everything from
`attributes` on. Base offset and leader epoch come before that, so a broker can
set them without a new checksum: `placed` returns the 16 bytes to write in
front of `batch[16:]`, and the sender's buffer stays unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from qanat.model.errors import CorruptBatchError, InvalidRecordError, UnsupportedCompressionError
from qanat.wire.crc import crc32c

Buffer = bytes | bytearray | memoryview

HEADER_SIZE = 61
MAGIC = 2
PREFIX_SIZE = 16
"""Base offset, length and leader epoch: the part that `placed` replaces."""

_LENGTH_AT = 8
MAGIC_AT = 16
_CRC_AT, CRC_FROM = 17, 21
ATTRIBUTES_AT = 22
"""The byte of the attributes that has a meaning."""
BYTES_BEFORE_LENGTH = 12
"""Bytes of a batch that `batch_length` does not count: base offset and itself."""

_HEADER = Struct(">qiibIhiqqqhii")
_PREFIX = Struct(">qii")
_pack_prefix_into = _PREFIX.pack_into
_LENGTH = Struct(">i")
_CRC = Struct(">I")

_LARGEST_OFFSET = 2**63 - 1
_LAST_CODEC = 4

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40


class BatchHeader(NamedTuple):
    """A batch's header, field by field."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.batch_length + BYTES_BEFORE_LENGTH

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; numbers wrap from 2^31 - 1 to 0."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def newest_timestamp(self) -> int:
        """The newest record's timestamp; -1 where compaction left none, whatever `max_timestamp` says."""
        return self.max_timestamp if self.record_count else -1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may remove the batch's tombstones (KIP-534), if that is decided."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; the caller has checked that 61 bytes are there."""
    return BatchHeader._make(_HEADER.unpack_from(buffer, position))


def write_header(buffer: bytearray | memoryview, position: int, header: BatchHeader) -> None:
    """Write `header` as it is, checksum included."""
    _HEADER.pack_into(buffer, position, *header)


def write_fields(batch: bytearray, leader_epoch: int, *rest: int) -> None:
    """Write length, magic and checksum, which are known from the batch, and the other fields; `rest` is base offset,
    and attributes and those after them, in the order of the format."""
    base_offset, *others = rest
    _HEADER.pack_into(batch, 0, base_offset, len(batch) - BYTES_BEFORE_LENGTH, leader_epoch, MAGIC, 0, *others)
    _CRC.pack_into(batch, _CRC_AT, batch_crc(batch))


def packed(header: BatchHeader) -> bytes:
    """The 61 bytes of a header, as it is."""
    return _HEADER.pack(*header)


def header_crc(header: BatchHeader) -> int:
    """The checksum of the header fields that it covers."""
    return crc32c(packed(header)[CRC_FROM:])


def batch_size_at(buffer: Buffer, position: int) -> int:
    """The declared size of the batch at `position`, not checked; 12 bytes must be there."""
    length: int = _LENGTH.unpack_from(buffer, position + _LENGTH_AT)[0]
    return length + BYTES_BEFORE_LENGTH


def split_batches(data: Buffer) -> Iterator[memoryview]:
    """The consecutive batches in `data`, as views; checksums are not verified."""
    view = memoryview(data)
    position = 0
    while position < len(view):
        left = len(view) - position
        size = batch_size_at(view, position) if left >= HEADER_SIZE else 0
        if not HEADER_SIZE <= size <= left:
            raise CorruptBatchError(
                f"at byte {position}: a batch of {size} bytes cannot stand in the {left} that are left"
            )
        yield view[position : position + size]
        position += size


def batch_crc(batch: Buffer) -> int:
    """The checksum that a batch of exactly this extent should have."""
    return crc32c(memoryview(batch)[CRC_FROM:])


def placed(header: BatchHeader, base_offset: int, leader_epoch: int) -> bytes:
    """The first 16 bytes of the batch at its place in a log."""
    return _PREFIX.pack(base_offset, header.batch_length, leader_epoch)


def patch(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Set base offset and leader epoch in a writable batch; the checksum stays valid."""
    _pack_prefix_into(batch, 0, base_offset, batch_size_at(batch, 0) - BYTES_BEFORE_LENGTH, leader_epoch)


def check_batch(batch: Buffer) -> BatchHeader:
    """The header of a batch from a producer, once everything about it is verified.

    The buffer must be exactly one batch. Raises Kafka's errors: an older
    format or a second batch is an invalid record, a wrong length or checksum a
    corrupt message.
    """
    size = len(batch)
    if size >= HEADER_SIZE:
        # One test for the usual case; the steps below find the error message.
        header = tuple.__new__(BatchHeader, _HEADER.unpack_from(batch))
        if (
            header.magic == MAGIC
            and header.batch_length == size - BYTES_BEFORE_LENGTH
            and header.attributes & CODEC_MASK <= _LAST_CODEC
            and header.last_offset_delta == header.record_count - 1 >= 0
            and header.crc == crc32c(memoryview(batch)[CRC_FROM:])
        ):
            return header
    header = _check_envelope(batch)
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        raise InvalidRecordError(
            f"a batch of {header.record_count} records cannot have a last offset delta of {header.last_offset_delta}"
        )
    return header


def check_stored_batch(batch: Buffer) -> BatchHeader:
    """The header of a batch from a log, where compaction may have removed records, even all of them."""
    header = _check_envelope(batch)
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        raise CorruptBatchError(
            f"a batch of {header.record_count} records cannot have a last offset delta of {header.last_offset_delta}"
        )
    if header.base_offset < 0 or header.last_offset_delta < 0 or header.last_offset > _LARGEST_OFFSET:
        raise CorruptBatchError(f"no batch spans the offsets {header.base_offset} to {header.last_offset}")
    return header


def check_extent(batch: Buffer) -> BatchHeader:
    """The header of exactly one batch, by its declared length; the checksum is left to the reader."""
    size = len(batch)
    if size > MAGIC_AT and batch[MAGIC_AT] in (0, 1):
        raise InvalidRecordError(
            f"message format v{batch[MAGIC_AT]} is not accepted: send record batches (magic 2), as every "
            "client since Kafka 0.11 does"
        )
    if size < HEADER_SIZE:
        raise CorruptBatchError(f"a record batch has at least {HEADER_SIZE} bytes, this one ends after {size}")
    header = BatchHeader._make(_HEADER.unpack_from(batch))
    if header.magic != MAGIC:
        raise InvalidRecordError(f"unknown message format: magic is {header.magic}, 2 is expected")
    if header.size != size:
        if HEADER_SIZE <= header.size < size:
            raise InvalidRecordError("more than one record batch was sent for one partition; send exactly one")
        raise CorruptBatchError(
            f"the batch claims {header.batch_length} bytes after its length, {size - BYTES_BEFORE_LENGTH} are there"
        )
    return header


def _check_envelope(batch: Buffer) -> BatchHeader:
    header = check_extent(batch)
    if header.crc != batch_crc(batch):
        raise CorruptBatchError(
            f"checksum mismatch: the header says {header.crc:#010x}, the bytes give {batch_crc(batch):#010x}"
        )
    if header.codec > _LAST_CODEC:
        raise UnsupportedCompressionError(
            f"compression codec {header.codec} does not exist (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd)"
        )
    return header

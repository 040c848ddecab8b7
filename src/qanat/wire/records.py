"""The records of a batch, one value each: for HTTP, tools, tests and internal topics.

The broker's hot path does not use this; compaction works on keys and spans
(`filtering.py`), Spark on columns (`columns.py`). All three open a batch by
`open_batch` and make one by `sealed`.

Timestamps are deltas to the header's base timestamp. Once a batch has a delete
horizon (KIP-534) that field holds the horizon, and the deltas count from it. In a
batch with log append time every record has the header's max timestamp.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from qanat.model.errors import CorruptBatchError, InvalidRecordError
from qanat.wire.batch_header import (
    BYTES_BEFORE_LENGTH,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    batch_crc,
    check_stored_batch,
    header_crc,
    read_header,
    write_fields,
    write_header,
)
from qanat.wire.compression import Codec, compress, decompress
from qanat.wire.copying import copied
from qanat.wire.crc_change import carried
from qanat.wire.record_reader import split_records
from qanat.wire.record_writer import encode_records

if TYPE_CHECKING:
    from qanat.wire.record_reader import RawRecord

NO_TIMESTAMP = -1
INT32_MAX = 2**31 - 1
INT64_HALF = 2**63

_SMALLEST_RECORD = 7
"""Length, attributes, two deltas, two null fields and a header count of one byte each."""

Header = tuple[str, bytes | None]


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record; `timestamp` in milliseconds, -1 if there is none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    attributes: int = 0


class BatchFields(Struct, frozen=True):
    """The fields of a batch's header besides its records; the defaults are those of a simple producer."""

    base_offset: int = 0
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False
    is_control: bool = False
    log_append_time_ms: int | None = None
    delete_horizon_ms: int | None = None

    @property
    def attributes(self) -> int:
        return (
            TRANSACTIONAL * self.is_transactional
            | CONTROL * self.is_control
            | LOG_APPEND_TIME * (self.log_append_time_ms is not None)
            | DELETE_HORIZON * (self.delete_horizon_ms is not None)
        )

    def after(self, count: int) -> BatchFields:
        """The same for the producer's next batch: sequence numbers continue and wrap at 2^31."""
        if self.base_sequence < 0:
            return self
        return replace(self, base_sequence=(self.base_sequence + count) & INT32_MAX)


def open_batch(batch: Buffer, limit_bytes: int) -> tuple[BatchHeader, Buffer]:
    """A whole stored or fetched batch: its verified header, and its records uncompressed."""
    header = check_stored_batch(batch)
    stored = memoryview(batch)[HEADER_SIZE:]
    # Compaction leaves headers without records, whose empty payload is in no codec's format.
    payload = stored if header.record_count == len(stored) == 0 else decompress(header.codec, stored, limit_bytes)
    if header.record_count * _SMALLEST_RECORD > len(payload):
        raise CorruptBatchError(f"{header.record_count} records cannot be in {len(payload)} bytes")
    return header, payload


def decode_records(batch: Buffer, limit_bytes: int) -> list[Record]:
    """The records of one whole batch, whose payload decompresses to at most `limit_bytes`."""
    header, payload = open_batch(batch, limit_bytes)
    raw = split_records(payload, header.record_count, header.last_offset_delta)
    fixed = header.max_timestamp if header.is_log_append_time else None
    return [_decoded(record, header.base_offset, header.base_timestamp, fixed) for record in raw]


def _decoded(raw: RawRecord, base_offset: int, base_timestamp: int, fixed: int | None) -> Record:
    attributes, timestamp_delta, offset_delta, key, value, raw_headers = raw
    timestamp = wrapped(base_timestamp + timestamp_delta) if fixed is None else fixed
    # Java's client replaces invalid UTF-8, too: a bad key must not make a partition unreadable.
    headers = (
        tuple([(name.decode("utf-8", "replace"), content) for name, content in raw_headers]) if raw_headers else ()
    )
    return Record(base_offset + offset_delta, timestamp, key, value, headers, attributes)


def wrapped(timestamp: int) -> int:
    """A sum of timestamps in 64 bits, as Java computes it."""
    if -INT64_HALF <= timestamp < INT64_HALF:
        return timestamp
    return (timestamp + INT64_HALF) % (2 * INT64_HALF) - INT64_HALF


def encode_batch(
    records: Sequence[Record],
    *,
    codec: Codec = Codec.NONE,
    base_offset: int | None = None,
    last_offset_delta: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    log_append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """One batch of these records, whose offsets must ascend.

    `base_offset` and `last_offset_delta` default to the first and last record; a
    batch that lost records at its ends passes them to keep its extent.
    """
    if base_offset is None:
        base_offset = records[0].offset if records else 0
    fields = BatchFields(
        base_offset,
        leader_epoch,
        producer_id,
        producer_epoch,
        base_sequence,
        is_transactional,
        is_control,
        log_append_time_ms,
        delete_horizon_ms,
    )
    if last_offset_delta is None:
        last_offset_delta = records[-1].offset - base_offset if records else 0
    return encode_records_batch(records, fields, codec, last_offset_delta)


def encode_records_batch(
    records: Sequence[Record], fields: BatchFields, codec: Codec, last_offset_delta: int
) -> bytearray:
    """`encode_batch` for callers that have the fields."""
    base_timestamp = fields.delete_horizon_ms
    if base_timestamp is None:
        base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    _check_offsets(records, fields.base_offset, last_offset_delta)
    raw = [_encodable(record, fields.base_offset, base_timestamp) for record in records]
    max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    batch = encode_records(raw, HEADER_SIZE)
    return sealed(batch, fields, codec, len(raw), last_offset_delta, base_timestamp, max_timestamp)


def _check_offsets(records: Sequence[Record], base_offset: int, last_offset_delta: int) -> None:
    previous = base_offset - 1
    for record in records:
        if record.offset <= previous:
            raise InvalidRecordError(f"offset {record.offset} cannot follow {previous} in a batch")
        previous = record.offset
    if not max(0, previous - base_offset) <= last_offset_delta <= INT32_MAX:
        raise InvalidRecordError(
            f"offset {previous} is not in a batch from {base_offset} with a last offset delta of {last_offset_delta}"
        )


def _encodable(record: Record, base_offset: int, base_timestamp: int) -> RawRecord:
    try:
        headers = tuple([(name.encode(), content) for name, content in record.headers]) if record.headers else ()
    except UnicodeEncodeError as fault:
        raise InvalidRecordError(f"a header key cannot be written as UTF-8: {fault}") from fault
    delta = wrapped(record.timestamp - base_timestamp)
    return record.attributes, delta, record.offset - base_offset, record.key, record.value, headers


def sealed(
    batch: bytearray,
    fields: BatchFields,
    codec: Codec,
    count: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
) -> bytearray:
    """A batch from 61 free bytes and the records' bytes: compressed, with header and checksum."""
    if fields.log_append_time_ms is not None:
        max_timestamp = fields.log_append_time_ms
    if codec is Codec.NONE:
        write_fields(
            batch,
            fields.leader_epoch,
            fields.base_offset,
            fields.attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            fields.producer_id,
            fields.producer_epoch,
            fields.base_sequence,
            count,
        )
        return batch
    header = BatchHeader(
        base_offset=fields.base_offset,
        batch_length=0,
        leader_epoch=fields.leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=fields.attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=fields.producer_id,
        producer_epoch=fields.producer_epoch,
        base_sequence=fields.base_sequence,
        record_count=count,
    )
    return closed(batch, header, codec)


def closed(batch: bytearray, header: BatchHeader, codec: Codec, level: int | None = None) -> bytearray:
    """`header` and the records after the 61 free bytes of `batch`, with codec, length and checksum set."""
    if header.record_count == 0:
        codec = Codec.NONE
    if codec is not Codec.NONE:
        batch = copied(compress(codec, memoryview(batch)[HEADER_SIZE:], level), HEADER_SIZE)
    header = header._replace(
        attributes=header.attributes & ~CODEC_MASK | codec, batch_length=len(batch) - BYTES_BEFORE_LENGTH, crc=0
    )
    write_header(batch, 0, header)
    write_header(batch, 0, header._replace(crc=batch_crc(batch)))
    return batch


def reencode(batch: Buffer, codec: Codec, limit_bytes: int, level: int | None = None) -> bytearray:
    """The same batch in another compression; the records' bytes stay the same."""
    header, payload = open_batch(batch, limit_bytes)
    return closed(copied(payload, HEADER_SIZE), header, codec, level)


def set_producer(
    batch: bytearray | memoryview, producer_id: int, epoch: int, sequence: int, *, is_transactional: bool
) -> int:
    """Write a producer's identity into the header of a finished batch; returns how many records it has.

    The new checksum follows from the old one, so that a later check still finds records that have changed since
    then.
    """
    header = read_header(batch)
    write_header(batch, 0, identified(header, producer_id, epoch, sequence, is_transactional=is_transactional))
    return header.record_count


def identified(
    header: BatchHeader, producer_id: int, epoch: int, sequence: int, *, is_transactional: bool
) -> BatchHeader:
    """The header with a producer's identity, and the checksum that follows from the old one."""
    changed = header._replace(
        attributes=header.attributes & ~TRANSACTIONAL | TRANSACTIONAL * is_transactional,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    difference = header_crc(header) ^ header_crc(changed)
    return changed._replace(crc=header.crc ^ carried(difference, header.size - HEADER_SIZE))


def with_log_append_time(batch: Buffer, now_ms: int) -> bytearray:
    """A checked batch stamped with the broker's time, without opening its records."""
    stamped = copied(batch)
    header = read_header(stamped)
    header = header._replace(attributes=header.attributes | LOG_APPEND_TIME, max_timestamp=now_ms)
    write_header(stamped, 0, header)
    write_header(stamped, 0, header._replace(crc=batch_crc(stamped)))
    return stamped

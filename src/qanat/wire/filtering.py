"""Batches for compaction: their keys, and a batch without some of its records.

A batch keeps its extent whatever it loses: base offset, last offset and sequence
numbers stay, as in Kafka, so that offsets and producer state can be rebuilt from
what remains. Retained records are copied byte for byte unless a delete horizon is
set, which moves the base of their timestamps (KIP-534).
`log/` decides which records to retain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from qanat.model.errors import InvalidRecordError
from qanat.wire.batch_header import DELETE_HORIZON, HEADER_SIZE, BatchHeader, Buffer
from qanat.wire.compression import Codec
from qanat.wire.copying import copied
from qanat.wire.record_reader import count_null_keys, filter_records, scan_keys, split_records
from qanat.wire.record_writer import encode_records
from qanat.wire.records import NO_TIMESTAMP, closed, open_batch, wrapped


class KeyedRecord(NamedTuple):
    """The part of a record that compaction needs."""

    offset: int
    key: bytes | None
    is_tombstone: bool


def read_keys(batch: Buffer, limit_bytes: int) -> list[KeyedRecord]:
    """Offset, key and whether the value is null, of every record of a stored batch."""
    header, payload = open_batch(batch, limit_bytes)
    deltas, keys, tombstones = scan_keys(payload, header.record_count, header.last_offset_delta)
    offsets = map(header.base_offset.__add__, deltas)
    return list(map(KeyedRecord, offsets, keys, map(bool, tombstones)))


def check_records(batch: Buffer, limit_bytes: int, *, keys_required: bool = False) -> None:
    """Open a batch to check that every record is valid, and has a key if the topic is compacted."""
    header, payload = open_batch(batch, limit_bytes)
    null_keys = count_null_keys(payload, header.record_count, header.last_offset_delta)
    if keys_required and null_keys:
        raise InvalidRecordError(
            f"{null_keys} of {header.record_count} records have no key; a compacted topic needs one"
        )


def retain(
    batch: Buffer, keep: Sequence[bool] | bytes, limit_bytes: int, *, delete_horizon_ms: int | None = None
) -> bytearray:
    """The batch with only the records whose entry in `keep` is true, in the same compression.

    A horizon is stored in the batch: when its tombstones may be removed; without one
    it keeps its own. If no record is retained, the header alone is.
    """
    header, payload = open_batch(batch, limit_bytes)
    decisions = bytes(map(bool, keep))
    kept, latest = filter_records(
        payload, header.record_count, header.last_offset_delta, decisions, header.base_timestamp
    )
    header = header._replace(record_count=sum(decisions))
    if header.record_count == 0:
        return _emptied(header)
    if not header.is_log_append_time:
        header = header._replace(max_timestamp=latest)
    target = copied(kept, HEADER_SIZE)
    if delete_horizon_ms is not None:
        target, header = _rebased(kept, header, delete_horizon_ms)
    return closed(target, header, Codec(header.codec))


def _emptied(header: BatchHeader) -> bytearray:
    """As Kafka writes it: no horizon, no base timestamp, the max timestamp of the removed records."""
    header = header._replace(attributes=header.attributes & ~DELETE_HORIZON, base_timestamp=NO_TIMESTAMP)
    return closed(bytearray(HEADER_SIZE), header, Codec.NONE)


def _rebased(payload: bytearray, header: BatchHeader, horizon_ms: int) -> tuple[bytearray, BatchHeader]:
    moved = header.base_timestamp - horizon_ms
    records = [
        (attributes, wrapped(timestamp_delta + moved), offset_delta, key, value, headers)
        for attributes, timestamp_delta, offset_delta, key, value, headers in split_records(
            payload, header.record_count, header.last_offset_delta
        )
    ]
    header = header._replace(attributes=header.attributes | DELETE_HORIZON, base_timestamp=horizon_ms)
    return encode_records(records, HEADER_SIZE), header

"""Transaction markers: the control batches that end a transaction in a partition.

A control record's key is `version int16 · type int16`; a marker's value is
`version int16 · coordinator_epoch int32`. Types that we do not write (Kafka's
Raft has some) are no fault.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from qanat.model.errors import CorruptBatchError
from qanat.wire.batch_header import Buffer
from qanat.wire.records import Record, decode_records, encode_batch

ABORT = 0
COMMIT = 1

_VERSION = 0
_KEY = Struct(">hh")
_VALUE = Struct(">hi")
MARKER_SIZE = 78
"""Bytes of a batch with one marker."""
_LIMIT_BYTES = 1024 * 1024
"""Control batches are tiny; a larger one is not opened."""


class Marker(NamedTuple):
    """How a transaction ended, and the epoch of its coordinator."""

    is_commit: bool
    coordinator_epoch: int


def encode_marker(
    marker: Marker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """A batch of one control record."""
    key = _KEY.pack(_VERSION, COMMIT if marker.is_commit else ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return encode_batch(
        [Record(base_offset, timestamp_ms, key, value)],
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def decode_marker(batch: Buffer) -> Marker | None:
    """The marker in a control batch; None if it is another type, or compaction has emptied the batch."""
    records = decode_records(batch, _LIMIT_BYTES)
    if not records:
        return None
    key = records[0].key or b""
    if len(key) < _KEY.size:
        raise CorruptBatchError(f"a control record's key has 4 bytes, this one {len(key)}")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptBatchError(f"a control record has version {version}")
    if kind not in (ABORT, COMMIT):
        return None
    value = records[0].value or b""
    if len(value) < _VALUE.size:
        raise CorruptBatchError(f"a transaction marker has 6 bytes, this one {len(value)}")
    return Marker(kind == COMMIT, _VALUE.unpack_from(value)[1])

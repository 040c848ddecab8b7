"""Batches of records: their sizes, where to cut, and the bytes.

Used for the log of this broker (`record_routing`), for other brokers (`forwarding`) and in transactions
(`idempotency`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qanat.servers.http.problems import Problem
from qanat.wire.batch_header import HEADER_SIZE
from qanat.wire.compression import Codec
from qanat.wire.record_writer import encode_records
from qanat.wire.records import BatchFields, sealed

if TYPE_CHECKING:
    from qanat.servers.http.records.record_parsing import ProducerRecord

BATCH_BYTES = 512 * 1024
"""Largest records of one batch together, unless a single one is larger."""
_RECORD_OVERHEAD = 24
_PLAIN = BatchFields()

Result = int | Problem
"""A record's offset, or why it has none."""


def size_of(record: ProducerRecord) -> int:
    headers = sum([len(name) + len(text or b"") for name, text in record.headers]) if record.headers else 0
    return _RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"") + headers


def batches_of(numbers: Sequence[int], records: Sequence[ProducerRecord]) -> list[tuple[int, int]]:
    """The cuts between a partition's batches, so that none is too large."""
    cuts: list[tuple[int, int]] = []
    first = size = 0
    for place, number in enumerate(numbers):
        one = size_of(records[number])
        if size + one > BATCH_BYTES and place > first:
            cuts.append((first, place))
            first, size = place, 0
        size += one
    cuts.append((first, len(numbers)))
    return cuts


def encoded(records: Sequence[ProducerRecord], fields: BatchFields = _PLAIN) -> bytearray:
    """A batch of these records."""
    base = records[0].timestamp
    latest = base
    rows = []
    for delta, record in enumerate(records):
        timestamp = record.timestamp
        if timestamp > latest:
            latest = timestamp
        rows.append((0, timestamp - base, delta, record.key, record.value, record.headers))
    payload = encode_records(rows, HEADER_SIZE)
    return sealed(payload, fields, Codec.NONE, len(rows), len(rows) - 1, base, latest)

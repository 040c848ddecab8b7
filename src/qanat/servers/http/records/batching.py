"""Records into batches: how large they are, where to cut, and the bytes.

Shared by whoever writes: into a log of this broker (`producing`), to another (`forwarding`), in transactions
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
    from qanat.servers.http.records.record_parsing import Outgoing

BATCH_BYTES = 512 * 1024
"""Records of one batch together, unless one alone is larger."""
_RECORD_OVERHEAD = 24
_PLAIN = BatchFields()

Result = int | Problem
"""A record's offset, or why it has none."""


def size_of(record: Outgoing) -> int:
    headers = sum([len(name) + len(text or b"") for name, text in record.headers]) if record.headers else 0
    return _RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"") + headers


def batches_of(numbers: Sequence[int], records: Sequence[Outgoing]) -> list[tuple[int, int]]:
    """Where to cut a partition's records, so that no batch is too large."""
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


def encoded(records: Sequence[Outgoing], fields: BatchFields = _PLAIN) -> bytearray:
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

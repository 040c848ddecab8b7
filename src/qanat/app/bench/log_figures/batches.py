"""The record batches that measurements write: encoded once, as by a producer."""

from __future__ import annotations

import os
from functools import cache

from qanat.app.node.compose import clock_ms
from qanat.log.settings import NEVER_MS, LogSettings
from qanat.wire.records import Record, encode_batch

VALUE_BYTES = 100
KEY_BYTES = 10
SMALL_BATCH_BYTES = 16 * 1024
LARGE_BATCH_BYTES = 256 * 1024

UNFLUSHED = LogSettings(flush_messages=NEVER_MS)
"""Kafka's own defaults: the kernel decides when bytes reach the disk."""


@cache
def batch_of(size_bytes: int) -> tuple[bytes, int]:
    """The largest batch of keyless 100-byte records within `size_bytes`, and how many records it holds."""
    timestamp = clock_ms()
    count = max(1, size_bytes // (VALUE_BYTES + 8))
    while True:
        batch = encode_batch([Record(offset, timestamp, None, os.urandom(VALUE_BYTES)) for offset in range(count)])
        if len(batch) <= size_bytes or count == 1:
            return bytes(batch), count
        count -= 1


def keyed_batches(records: int, per_batch: int = 1000) -> list[bytes]:
    """Batches of so many records with keys and 100-byte values."""
    timestamp = clock_ms()
    return [
        bytes(
            encode_batch(
                [
                    Record(offset, timestamp, os.urandom(KEY_BYTES), os.urandom(VALUE_BYTES))
                    for offset in range(first, min(first + per_batch, records))
                ]
            )
        )
        for first in range(0, records, per_batch)
    ]

"""Records of every kind for the wire tests, made by hand and by hypothesis."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import strategies as st

from qanat.wire.batch_header import batch_crc
from qanat.wire.compression import Codec

LIMIT = 64 * 1024 * 1024
CODECS = list(Codec)
QUICK_CODECS = [
    pytest.param(codec, marks=[] if codec in (Codec.NONE, Codec.LZ4) else [pytest.mark.long]) for codec in CODECS
]
"""For properties: two in `make test`, the others in `make test-long`."""
NOW = 1_700_000_000_000

fields = st.none() | st.binary(max_size=40)
header_lists = st.lists(st.tuples(st.text(max_size=10), fields), max_size=3).map(tuple)
timestamps = st.integers(-1, 2**45) | st.integers(-(2**63), 2**63 - 1)
contents = st.lists(st.tuples(timestamps, fields, fields, header_lists, st.integers(1, 2**20)), min_size=1, max_size=8)
"""Timestamp, key, value, headers, and the distance to the next offset."""


def build(records: Any, content: list[tuple[Any, ...]], base_offset: int = 0) -> list[Any]:
    """Content as records of one form of the core."""
    built = []
    offset = base_offset
    for timestamp, key, value, headers, distance in content:
        built.append(records.Record(offset, timestamp, key, value, headers))
        offset += distance
    return built


def plain(records: Any, count: int = 5) -> list[Any]:
    """A few ordinary records, with a tombstone, a missing key and headers among them."""
    kinds = [
        (b"key", b"value", ()),
        (None, b"no key", ()),
        (b"tombstone", None, (("h", b"1"), ("none", None))),
        (b"", b"", (("größe", b""),)),
        (b"k" * 100, b"v" * 300, ()),
    ]
    return [records.Record(i, NOW + i, *kinds[i % len(kinds)]) for i in range(count)]


def with_payload(payload: bytes, count: int, *, codec: int = 0, last_offset_delta: int | None = None) -> bytearray:
    """A batch with a right header and checksum around any bytes at all."""
    last = count - 1 if last_offset_delta is None else last_offset_delta
    head = struct.pack(">qiibIhiqqqhii", 0, 49 + len(payload), -1, 2, 0, codec, last, NOW, NOW, -1, -1, -1, count)
    return resealed(bytearray(head + payload))


def resealed(batch: bytearray) -> bytearray:
    """The batch with the checksum that its bytes ask for."""
    struct.pack_into(">I", batch, 17, batch_crc(batch))
    return batch


def varint(value: int) -> bytes:
    """A zigzag number, written independently of the code under test."""
    bits = value * 2 if value >= 0 else -value * 2 - 1
    out = bytearray()
    while bits > 0x7F:
        out.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes([*out, bits])


def raw_record(*parts: bytes) -> bytes:
    body = b"".join(parts)
    return varint(len(body)) + body

"""Protobuf and OTLP, written by hand: what clients push, right and wrong."""

from __future__ import annotations

import struct

Labels = dict[str, str]


def varint(number: int) -> bytes:
    out = bytearray()
    number &= 0xFFFF_FFFF_FFFF_FFFF
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def tagged(number: int, data: bytes) -> bytes:
    """A field of bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def number_field(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def double_field(number: int, value: float) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<d", value)


def int64_field(number: int, value: int) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<q", value)


def point(value: float, labels: Labels | None = None) -> bytes:
    pairs = (tagged(1, name.encode()) + tagged(2, tagged(1, text.encode())) for name, text in (labels or {}).items())
    written = int64_field(6, value) if isinstance(value, int) else double_field(4, value)
    return b"".join(tagged(7, pair) for pair in pairs) + written


def gauge(name: str, *points: bytes, unit: str = "ms") -> bytes:
    return tagged(1, name.encode()) + tagged(3, unit.encode()) + tagged(5, b"".join(tagged(1, one) for one in points))


def counter(name: str, *points: bytes, is_delta: bool = False) -> bytes:
    sums = b"".join(tagged(1, one) for one in points) + number_field(2, 1 if is_delta else 2) + number_field(3, 1)
    return tagged(1, name.encode()) + tagged(7, sums)


def payload(*metrics: bytes) -> bytes:
    scope = b"".join(tagged(2, metric) for metric in metrics)
    return tagged(1, tagged(2, scope))

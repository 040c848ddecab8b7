"""Which partition a key has: Java's murmur2, so that a key has one home whoever sends it."""

from __future__ import annotations

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The hash of `org.apache.kafka.common.utils.Utils.murmur2`, as an unsigned number of 32 bits.

    >>> murmur2(b"21") - 2**32
    -973932308
    """
    length = len(data)
    hashed = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        hashed = (hashed * _M & _MASK) ^ k
    if length > whole:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    hashed = (hashed ^ hashed >> 13) * _M & _MASK
    return hashed ^ hashed >> 15


def partition_of(key: bytes, count: int) -> int:
    """The partition of a key among `count`, as Java's default partitioner says."""
    return (murmur2(key) & 0x7FFFFFFF) % count

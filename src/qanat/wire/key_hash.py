# cython: language_level=3, boundscheck=False, wraparound=False, annotation_typing=False, initializedcheck=False
"""The partition of a key: Java's murmur2, so that all clients agree; of one key, or of a column.

Compiled and interpreted like `record_reader`. All arithmetic is on unsigned numbers of 64 bits cut to 32, which
means the same in C and in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from array import array

    from qanat.wire.batch_header import Buffer

COMPILED = not __file__.endswith(".py")
SEED = 0x9747B28C
FACTOR = 0x5BD1E995
LOW = 0xFFFFFFFF
POSITIVE = 0x7FFFFFFF


def is_compiled() -> bool:
    return COMPILED


def murmur2(data: Buffer) -> int:
    """The hash of `org.apache.kafka.common.utils.Utils.murmur2`, as an unsigned number of 32 bits.

    >>> murmur2(b"21") - 2**32
    -973932308
    """
    return hash_of(data, 0, len(data))


def partition_of(key: Buffer, count: int) -> int:
    """The partition of a key among `count`, as Java's default partitioner computes it."""
    return (murmur2(key) & POSITIVE) % count


def hash_of(data: Buffer, start: int, length: int) -> int:
    """The hash of a part of a buffer."""
    hashed = SEED ^ length
    whole = length & ~3
    for at in range(start, start + whole, 4):
        k = data[at + 3]
        k = k << 24 | data[at + 2] << 16 | data[at + 1] << 8 | data[at]
        k = k * FACTOR & LOW
        k = (k ^ k >> 24) * FACTOR & LOW
        hashed = (hashed * FACTOR & LOW) ^ k
    if length > whole:
        k = 0
        for at in range(start + length - 1, start + whole - 1, -1):
            k = k << 8 | data[at]
        hashed = (hashed ^ k) * FACTOR & LOW
    hashed = (hashed ^ hashed >> 13) * FACTOR & LOW
    return hashed ^ hashed >> 15


def place_rows(offsets: array[int] | memoryview, data: Buffer, count: int, targets: array[int]) -> None:
    """The partition among `count` of each row of a binary column, into `targets`; the caller handles nulls."""
    rows = len(targets)
    if len(offsets) <= rows:
        raise AssertionError("a column has fewer offsets than there are rows to place")
    if count <= 0:
        raise AssertionError("a topic has at least one partition")
    end = offsets[0]
    if end < 0:
        raise AssertionError("a column begins before its data")
    for row in range(rows):
        start = end
        end = offsets[row + 1]
        if not start <= end <= len(data):
            raise AssertionError("a column's offsets leave its data")
        targets[row] = (hash_of(data, start, end - start) & POSITIVE) % count

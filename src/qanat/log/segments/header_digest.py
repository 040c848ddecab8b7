# cython: language_level=3, annotation_typing=False
"""The header digest: a running digest of what a batch's own checksum leaves out.

A batch's CRC does not cover its base offset and its leader epoch, because the leader sets both without reading the
records. A segment therefore has a 64-bit digest of the two numbers of all its batches, in order: in memory while
it grows, in the sidecar once it is sealed, in `header-digest-checkpoint` up to the recovery point.

Each step is a bijection of the digest for a given header, and of a number for a given digest: one wrong
number is always noticed. It is arithmetic on machine words and not a CRC because every append pays for it: compiled,
it takes a few nanoseconds.

`verification` compares digests; it reports `batch_scan.Damage`.
"""

from __future__ import annotations

from struct import Struct as Packing
from typing import Protocol

from msgspec import Struct

_MASK = 2**64 - 1
_FACTOR = 0x9E3779B97F4A7C15
"""Odd, so that multiplying by it loses nothing; its bits are those of the golden ratio."""
EMPTY = 0xCBF29CE484222325
"""The digest of zero batches."""

_PREFIX = Packing(">qii")
"""Base offset, length and leader epoch: the first 16 bytes of a batch."""
_BEFORE_LENGTH = 12
_WINDOW_BYTES = 1024 * 1024
_SMALL_WINDOW_BYTES = 4096


class _Readable(Protocol):
    def read(self, position: int, length: int) -> bytearray: ...


class HeaderDigest(Struct, frozen=True):
    """The digest of the headers of a segment."""

    digest: int
    is_dense: bool
    """Whether each batch starts where the one before it ends, the first at the segment's base offset. In such a segment
    every base offset follows from the others. Compaction leaves holes."""


class HeaderPoint(Struct, frozen=True):
    """The digest of the headers at the beginning of a segment: its first `size` bytes, up to `next_offset`."""

    base_offset: int
    """Of the segment."""
    next_offset: int
    size: int
    headers: HeaderDigest


def extended(digest: int, base_offset: int, leader_epoch: int) -> int:
    """The digest with one more batch."""
    digest = ((digest ^ (base_offset & _MASK)) * _FACTOR) & _MASK
    digest = ((digest << 29) & _MASK) | (digest >> 35)
    digest = ((digest ^ (leader_epoch & _MASK)) * _FACTOR) & _MASK
    return ((digest << 29) & _MASK) | (digest >> 35)


def digest_of(file: _Readable, size: int) -> int | None:
    """The digest of the batches in the first `size` bytes, from their headers alone; None where lengths do not add up.

    Of large batches, only the header is read.
    """
    digest, position, wanted = EMPTY, 0, _SMALL_WINDOW_BYTES
    while position < size:
        window = file.read(position, min(wanted, size - position))
        last, at = len(window) - _PREFIX.size, 0
        while at <= last:
            base_offset, length, leader_epoch = _PREFIX.unpack_from(window, at)
            if length <= 0:
                return None
            digest = extended(digest, base_offset, leader_epoch)
            at += length + _BEFORE_LENGTH
        if not at:
            return None
        wanted = _WINDOW_BYTES if at <= len(window) else _SMALL_WINDOW_BYTES
        position += at
    return digest if position == size else None

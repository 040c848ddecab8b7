"""Large copies that let other threads run meanwhile.

A single copy holds the interpreter until it is done, which for the largest batches is longer than a worker may
keep the event loop waiting. A copy in pieces does not.
"""

from __future__ import annotations

from qanat.wire.batch_header import Buffer
from qanat.wire.growth import lengthen

PIECE_BYTES = 1024 * 1024


def copied(source: Buffer, free_bytes: int = 0) -> bytearray:
    """A copy of `source` behind `free_bytes` zeros."""
    target = bytearray(free_bytes)
    size = len(source)
    if size <= PIECE_BYTES:
        target += source
        return target
    lengthen(target, free_bytes + size)
    with memoryview(target) as to, memoryview(source) as origin:
        for start in range(0, size, PIECE_BYTES):
            end = min(start + PIECE_BYTES, size)
            to[free_bytes + start : free_bytes + end] = origin[start:end]
    return target


def room_for(size: int) -> bytearray:
    """So many bytes of unspecified content, which cost neither memory nor time before they are written."""
    target = bytearray()
    lengthen(target, size)
    return target

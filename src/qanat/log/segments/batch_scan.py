"""Batch scan: reading a segment's bytes without trusting them, for recovery, scrubbing and cold reads.

A batch is sound when its length fits, its magic is 2, its offsets ascend
and its checksum matches. Anything else is either the torn end of a file that
was being written, or damage; `recovery` tells the two apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple, Protocol

from qanat.log.files import Buffer
from qanat.wire.batch_header import HEADER_SIZE, MAGIC, MAGIC_AT, BatchHeader, batch_crc, batch_size_at, read_header

_CHUNK_BYTES = 1024 * 1024
_OFFSET = Struct(">q")
_LARGEST_OFFSET = 2**63 - 1
ANY_OFFSET = -(2**63)
"""As the first expected offset: batches may have any offsets, in any order."""
_SHARED_OFFSET_BYTES = 5
"""Offsets less than 2^24 apart share this many leading bytes, except across a carry."""


class Readable(Protocol):
    """The part of a file that scanning needs."""

    def read(self, position: int, length: int) -> bytearray: ...


class Damage(NamedTuple):
    """Bytes of a segment that hold no readable batch, and the offsets that may be missing because of it."""

    start: int
    end: int
    first_offset: int
    next_offset: int
    reason: str


def readable_batch(
    data: Buffer, position: int, first_offset: int, end_offset: int = _LARGEST_OFFSET
) -> BatchHeader | str:
    """The header of a sound batch at `position`, or the reason why there is none.

    Its offsets must lie between the given ones: the checksum does not cover them.
    """
    left = len(data) - position
    if left < HEADER_SIZE:
        return _too_short(left)
    header = read_header(data, position)
    fault = _header_fault(header, left, first_offset, end_offset)
    if fault is not None:
        return fault
    if header.crc != batch_crc(memoryview(data)[position : position + header.size]):
        return _checksum_mismatch(header)
    return header


def _too_short(left: int) -> str:
    return f"{left} bytes left, a batch has at least {HEADER_SIZE}"


def _checksum_mismatch(header: BatchHeader) -> str:
    return f"checksum mismatch in the batch at offset {header.base_offset}"


def _header_fault(header: BatchHeader, left: int, first_offset: int, end_offset: int) -> str | None:
    """Why a header `left` bytes before the end is impossible; None where it is possible."""
    if header.magic != MAGIC:
        return f"magic is {header.magic}, 2 is expected"
    if not HEADER_SIZE <= header.size <= left:
        return f"the batch claims {header.size} bytes, {left} are there"
    if header.base_offset < first_offset or header.last_offset_delta < 0 or header.record_count < 0:
        return f"offset {header.base_offset} + {header.last_offset_delta} where {first_offset} or later is expected"
    if header.last_offset >= end_offset:
        return f"offset {header.base_offset} + {header.last_offset_delta} where everything is before {end_offset}"
    return None


def sound_batches(
    data: Buffer, position: int, first_offset: int, end_offset: int = _LARGEST_OFFSET
) -> Iterator[tuple[int, BatchHeader]]:
    """Batches from `position` on, up to the first that is not sound."""
    while True:
        header = readable_batch(data, position, first_offset, end_offset)
        if isinstance(header, str):
            return
        yield position, header
        position += header.size
        if first_offset != ANY_OFFSET:
            first_offset = header.next_offset


def next_sound_batch(
    file: Readable, position: int, end: int, first_offset: int, end_offset: int = _LARGEST_OFFSET
) -> tuple[int, BatchHeader] | None:
    """Where reading can resume after damage: the nearest sound batch after `position`, and its header."""
    start, candidates = position + 1, _candidates(first_offset)
    while end - start >= HEADER_SIZE:
        window = file.read(start, min(_CHUNK_BYTES, end - start))
        last = len(window) - HEADER_SIZE
        for found in candidates.finditer(window, MAGIC_AT, max(last + MAGIC_AT + 1, 0)):
            at = found.start() - MAGIC_AT
            header = read_header(window, at)
            if _header_fault(header, end - start - at, first_offset, end_offset) is not None:
                continue
            is_inside = at + header.size <= len(window)
            batch = window[at : at + header.size] if is_inside else file.read(start + at, header.size)
            if len(batch) == header.size and header.crc == batch_crc(batch):
                return start + at, header
        if len(window) < HEADER_SIZE:
            return None
        start += len(window) - HEADER_SIZE + 1  # A header that the window splits belongs to the next window.
    return None


def _candidates(first_offset: int) -> re.Pattern[bytes]:
    """Finds the magic of every possible batch, by the leading bytes of its offset.

    The pattern starts with the magic, which is searched at the speed of memory: zeros that a file system leaves in
    place of lost data hold none. The bytes before it are checked afterwards.
    """
    starts = (first_offset, min(first_offset + (1 << 24), _LARGEST_OFFSET))
    prefixes = sorted({re.escape(_OFFSET.pack(start)[:_SHARED_OFFSET_BYTES]) for start in starts})
    between = MAGIC_AT - _SHARED_OFFSET_BYTES + 1
    before = b"|".join(b"(?<=%s.{%d})" % (prefix, between) for prefix in prefixes)
    return re.compile(b"(?s)%s(?:%s)" % (re.escape(bytes([MAGIC])), before))


def read_batches(
    file: Readable, start: int, end: int, first_offset: int, end_offset: int = _LARGEST_OFFSET
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and bytes of the batches in a range of a file, up to the first that is not sound.

    Reads through a buffer and not through a map, for work off the event loop: touching a cold map
    would hold the interpreter lock for as long as the disk takes.
    """
    position, wanted = start, _CHUNK_BYTES
    while position < end:
        data = memoryview(file.read(position, min(wanted, end - position)))
        walked = 0
        for at, header in sound_batches(data, 0, first_offset, end_offset):
            walked = at + header.size
            if first_offset != ANY_OFFSET:
                first_offset = header.next_offset
            yield position + at, header, data[at:walked]
        position += walked
        if walked:
            wanted = _CHUNK_BYTES
        elif HEADER_SIZE <= len(data) < batch_size_at(data, 0) <= end - position:
            wanted = batch_size_at(data, 0)  # A batch larger than a chunk, or a wrong length.
        else:
            return


def find_damage(
    file: Readable, start: int, end: int, first_offset: int, next_offset: int, *, end_offset: int = _LARGEST_OFFSET
) -> Iterator[Damage]:
    """Damage in a range that should be whole batches with offsets from `first_offset` to `next_offset`.

    With `end_offset`, a batch that reaches beyond it is not sound.
    """
    position = start
    while position < end:
        for at, header, _ in read_batches(file, position, end, first_offset, end_offset):
            position, first_offset = at + header.size, header.next_offset
        if position < end:
            damage = damage_at(file, position, end, first_offset, next_offset, end_offset)
            yield damage
            position, first_offset = damage.end, damage.next_offset


def misplaced(position: int, header: BatchHeader, offset: int) -> Damage:
    """A batch whose checksum holds and whose base offset is not the one that follows from the batches before it."""
    reason = f"base offset {header.base_offset} in the batch at offset {offset}"
    return Damage(position, position + header.size, offset, offset + header.last_offset_delta + 1, reason)


def damage_at(file: Readable, position: int, end: int, first_offset: int, next_offset: int, end_offset: int) -> Damage:
    """The damage that starts at `position`, where there is no sound batch."""
    sound = next_sound_batch(file, position, end, first_offset, end_offset)
    reason = _reason(file, position, end, first_offset, end_offset)
    if sound is None:
        return Damage(position, end, first_offset, next_offset, reason)
    return Damage(position, sound[0], first_offset, sound[1].base_offset, reason)


def _reason(file: Readable, position: int, end: int, first_offset: int, end_offset: int) -> str:
    """Why there is no sound batch at `position`."""
    start = file.read(position, min(HEADER_SIZE, end - position))
    if len(start) < HEADER_SIZE:
        return _too_short(len(start))
    header = read_header(start)
    return _header_fault(header, end - position, first_offset, end_offset) or _checksum_mismatch(header)

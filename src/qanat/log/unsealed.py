"""Segments that nobody has sealed: what their bytes say, batch by batch.

Unsound bytes at the end of what was being written are a tear, and nothing that
anybody was promised. Unsound bytes below the recovery point are damage: they stay,
and their offsets are not given out again.
"""

from __future__ import annotations

from qanat.log.scan import find_damage, read_batches
from qanat.log.segment import Segment
from qanat.wire.batch_header import HEADER_SIZE, MAGIC, read_header


def take_in(segment: Segment, *, torn_from: int | None, next_offset: int | None, is_dense: bool) -> bool:
    """Enter a segment's sound batches; False where its bytes end in a tear, which the caller cuts at `size`.

    From offset `torn_from` on unsound bytes are a tear, nowhere for None. `next_offset` is where the
    following segment starts. `is_dense` says that batches follow each other without holes: the
    checksum does not cover a batch's offset.
    """
    length = segment.file.size()
    while True:
        _enter_sound(segment, length, torn_from, is_dense=is_dense)
        if segment.size == length:
            return True
        if torn_from is not None and not segment.next_offset < torn_from <= _reach(segment, length, next_offset):
            return False
        lost_to = next_offset if next_offset is not None else torn_from
        assert lost_to is not None, "only the last segment has no successor, and it may be torn"
        damage = next(find_damage(segment.file, segment.size, length, segment.next_offset, lost_to))
        segment.damage = (*segment.damage, damage)
        segment.size, segment.next_offset = damage.end, damage.next_offset


def _enter_sound(segment: Segment, length: int, torn_from: int | None, *, is_dense: bool) -> None:
    for position, header, _ in read_batches(segment.file, segment.size, length, segment.next_offset):
        is_astray = is_dense and header.base_offset != segment.next_offset
        if is_astray and torn_from is not None and segment.next_offset >= torn_from:
            return
        segment.enter(position, header.size, header.last_offset, header.newest_timestamp)
        if segment.first_append_ms is None and header.max_timestamp >= 0:
            segment.first_append_ms = header.max_timestamp


def _reach(segment: Segment, length: int, next_offset: int | None) -> int:
    """How far the records of a segment can have gone at most: a recovery point beyond was not written for this log.

    A record takes a byte, unless it is compressed; then the headers tell, as far as they look like headers.
    """
    if next_offset is not None:
        return next_offset
    position, reached = segment.size, segment.next_offset
    while length - position >= HEADER_SIZE:
        header = read_header(segment.file.read(position, HEADER_SIZE))
        if header.magic != MAGIC or header.base_offset != reached or header.size < HEADER_SIZE:
            break
        position, reached = position + header.size, max(header.next_offset, reached)
    return max(segment.base_offset + length, reached + max(length - position, 0))

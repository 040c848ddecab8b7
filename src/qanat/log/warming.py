"""Reads that would wait for the disk, done beside the event loop.

`is_warm` asks the kernel, without touching a page, whether a read from an
offset can be served from memory. `WarmJob` brings the pages in through a scratch
buffer (which releases the interpreter lock, as touching a cold map would not)
and compares checksums on the way, so that damage is found before it is sent.
"""

from __future__ import annotations

from qanat.log.indexes import position_before
from qanat.log.scan import Damage, find_damage, read_batches
from qanat.log.segment import Segment
from qanat.log.tables import SealedTables

_AROUND_BYTES = 64 * 1024
"""What walking to the first batch may touch besides the bytes asked for."""


def is_warm(segment: Segment, offset: int, max_bytes: int) -> bool:
    """Whether reading `max_bytes` from `offset` on would find everything in memory."""
    tables = segment.tables
    if isinstance(tables, SealedTables) and not tables.is_resident():
        return False
    position = position_before(tables.offsets, max(offset - segment.base_offset, 0))
    length = min(max_bytes + _AROUND_BYTES, segment.size - position)
    return length <= 0 or segment.file.is_resident(position, length)


class CheckJob:
    """Reads a segment from `position` on, for about `max_bytes`, and compares checksums: one step of scrubbing."""

    def __init__(self, segment: Segment, position: int, first_offset: int, max_bytes: int) -> None:
        self._segment = segment
        self._max_bytes = max_bytes
        self.position = position
        self.first_offset = first_offset
        self.damage: tuple[Damage, ...] = ()

    @property
    def is_done(self) -> bool:
        return self.position >= self._segment.size

    def run(self) -> None:
        segment, start = self._segment, self.position
        for position, header, _ in read_batches(segment.file, start, segment.size, self.first_offset):
            self.position, self.first_offset = position + header.size, header.next_offset
            if self.position - start >= self._max_bytes:
                return
        if self.position < segment.size:
            found = find_damage(segment.file, self.position, segment.size, self.first_offset, segment.next_offset)
            self.damage = tuple(found)
            self.position = segment.size

    def finish(self) -> None:
        self.damage = _note_damage(self._segment, self.damage)


class WarmJob:
    """Brings what a read from `offset` on will touch into memory, and checks it."""

    def __init__(self, segment: Segment, offset: int, max_bytes: int) -> None:
        self._segment = segment
        self._offset = offset
        self._max_bytes = max_bytes
        self.damage: tuple[Damage, ...] = ()

    def run(self) -> None:
        segment = self._segment
        if not self._is_sound(self._first_position()):
            # From the start, because only there is it certain which offset comes next.
            found = find_damage(segment.file, 0, segment.size, segment.base_offset, segment.next_offset)
            self.damage = tuple(found)

    def _first_position(self) -> int:
        """Where walking starts; at the very beginning if the tables are not what was sealed."""
        segment, tables = self._segment, self._segment.tables
        if isinstance(tables, SealedTables):
            if not tables.check():
                self._offset = segment.base_offset
                self._max_bytes = segment.size
                return 0
            tables.warm()
        return position_before(tables.offsets, max(self._offset - segment.base_offset, 0))

    def _is_sound(self, position: int) -> bool:
        """Walk up to the batch that holds the offset and `max_bytes` further; damage that is known is passed over."""
        segment, left = self._segment, self._max_bytes
        end = segment.size
        while position < end:
            for start, header, _ in read_batches(segment.file, position, end, segment.base_offset):
                position = start + header.size
                if header.next_offset > self._offset:
                    left -= header.size
                    if left <= 0:
                        return True
            if position < end:
                damage = segment.damage_at(position)
                if damage is None:
                    return False
                position = damage.end
        return True

    def finish(self) -> None:
        self.damage = _note_damage(self._segment, self.damage)


def _note_damage(segment: Segment, found: tuple[Damage, ...]) -> tuple[Damage, ...]:
    """Let whoever reads there be told from now on; returns what was not known yet."""
    known = segment.damage
    new = tuple(one for one in found if all(one.start >= other.end or one.end <= other.start for other in known))
    segment.damage = tuple(sorted((*known, *new)))
    return new

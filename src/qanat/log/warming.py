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
        """Note what is new; whoever reads there is told from now on."""
        known = self._segment.damage
        self.damage = tuple(damage for damage in self.damage if damage not in known)
        self._segment.damage = tuple(sorted((*known, *self.damage)))


class WarmJob:
    """Brings what a read from `offset` on will touch into memory, and checks it."""

    def __init__(self, segment: Segment, offset: int, max_bytes: int) -> None:
        self._segment = segment
        self._offset = offset
        self._check = CheckJob(segment, 0, segment.base_offset, max_bytes + _AROUND_BYTES)

    @property
    def damage(self) -> tuple[Damage, ...]:
        return self._check.damage

    def run(self) -> None:
        tables = self._segment.tables
        if isinstance(tables, SealedTables):
            tables.warm()
        self._check.position = position_before(tables.offsets, max(self._offset - self._segment.base_offset, 0))
        self._check.run()

    def finish(self) -> None:
        self._check.finish()

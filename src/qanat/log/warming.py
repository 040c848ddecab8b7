"""Reads that would wait for the disk, done beside the event loop.

`is_warm` asks the kernel, without touching a page, whether a read from an
offset can be served from memory. `WarmJob` brings the pages in through a scratch
buffer (which releases the interpreter lock, as touching a cold map would not)
and compares checksums on the way, so that damage is found before it is sent.
Both go by the same range.
"""

from __future__ import annotations

from collections.abc import Iterable

from qanat.log.files import Buffer
from qanat.log.indexes import positions_around
from qanat.log.scan import Damage, find_damage, read_batches
from qanat.log.segment import Segment
from qanat.log.tables import OpenTables, SealedTables
from qanat.wire.batch_header import HEADER_SIZE


def is_warm(segment: Segment, offset: int, max_bytes: int) -> bool:
    """Whether reading `max_bytes` from `offset` on would find everything in memory, as far as anybody has checked."""
    tables = segment.tables
    if isinstance(tables, SealedTables) and not tables.are_offsets_resident():
        return False
    if segment.is_next_read(offset):
        start, end = segment.read_position, min(segment.read_position + max_bytes + HEADER_SIZE, segment.size)
    else:
        start, end = _range(segment, tables.offsets, offset, max_bytes, segment.size)
    return end <= start or segment.file.is_resident(start, end - start)


def _range(segment: Segment, offsets: Buffer, offset: int, max_bytes: int, size: int) -> tuple[int, int]:
    """Which bytes a read may touch: from where its walk starts, to the header after its last batch."""
    start, latest = positions_around(offsets, max(offset - segment.base_offset, 0))
    if start >= size:
        return 0, size  # The file is shorter than it was: the walk starts at the very beginning.
    return start, size if latest is None else min(latest + max_bytes + HEADER_SIZE, size)


class CheckJob:
    """Reads a segment from `position` on, for about `max_bytes`, and compares checksums: one step of scrubbing.

    What is appended after the first step is left to the next round.
    """

    def __init__(self, segment: Segment, position: int, first_offset: int, max_bytes: int) -> None:
        self._segment = segment
        self._size = segment.size
        self._next_offset = segment.next_offset
        self._max_bytes = max_bytes
        self.position = position
        self.first_offset = first_offset
        self.damage: tuple[Damage, ...] = ()

    @property
    def is_done(self) -> bool:
        return self.position >= self._size

    def run(self) -> None:
        segment, start = self._segment, self.position
        for position, header, _ in read_batches(segment.file, start, self._size, self.first_offset):
            self.position, self.first_offset = position + header.size, header.next_offset
            if self.position - start >= self._max_bytes:
                return
        if self.position < self._size:
            found = find_damage(segment.file, self.position, self._size, self.first_offset, self._next_offset)
            self.damage = tuple(found)
            self.position = self._size

    def finish(self) -> None:
        self.damage = self._segment.note_damage(self.damage)


class WarmJob:
    """Brings what a read from `offset` on will touch into memory, and checks it."""

    def __init__(self, segment: Segment, offset: int, max_bytes: int) -> None:
        self._segment = segment
        self._tables = segment.tables
        self._offset = offset
        self._max_bytes = max_bytes
        self._size = segment.size
        self._next_offset = segment.next_offset
        self._known = segment.damage
        # Tables in memory grow meanwhile: they are asked now.
        self._range = None if isinstance(self._tables, SealedTables) else self._range_by(self._tables.offsets)
        self._opened: OpenTables | None = None
        self.is_lost = False
        """Whether the tables are not what was sealed: they must be rebuilt before anything can be read."""
        self.damage: tuple[Damage, ...] = ()

    def _range_by(self, offsets: Buffer) -> tuple[int, int]:
        return _range(self._segment, offsets, self._offset, self._max_bytes, self._size)

    def run(self) -> None:
        touched = self._range
        if isinstance(self._tables, SealedTables):
            held = self._tables.held
            if held is None:
                held = self._opened = self._tables.open()
            if held is None:
                self.is_lost = True
                return
            held.read_times()
            touched = self._range_by(held.read_offsets())
        assert touched is not None, "known from the beginning"
        if not self._is_sound(*touched):
            # From the start, because only there is it certain which offset comes next.
            segment = self._segment
            self.damage = tuple(find_damage(segment.file, 0, self._size, segment.base_offset, self._next_offset))

    def _is_sound(self, position: int, end: int) -> bool:
        """Walk whole batches up to `end`; damage that is known is passed over."""
        segment = self._segment
        while position < end:
            for start, header, _ in read_batches(segment.file, position, self._size, segment.base_offset):
                position = start + header.size
                if position >= end:
                    return True
            if position < self._size:
                passed = next((one.end for one in self._known if one.start <= position < one.end), None)
                if passed is None:
                    return False
                position = passed
        return True

    def finish(self) -> None:
        if self._opened is not None and isinstance(self._tables, SealedTables):
            self._tables.adopt(self._opened)
        self.damage = self._segment.note_damage(self.damage)


class LocateJob:
    """Looks through a whole segment for what a read stumbled over."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self.damage: tuple[Damage, ...] = ()

    def run(self) -> None:
        self.damage = self._segment.find_damage()

    def finish(self) -> None:
        self.damage = self._segment.note_damage(self.damage)


class HoldJob:
    """Opens the tables of sealed segments, so that a job can begin without waiting for the disk."""

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._segments = [one for one in segments if not one.tables.is_checked]
        self._opened: list[OpenTables | None] = []
        self.lost: list[Segment] = []
        """Segments whose tables must be rebuilt."""

    def run(self) -> None:
        for segment in self._segments:
            assert isinstance(segment.tables, SealedTables), "tables in memory are always at hand"
            self._opened.append(segment.tables.open())

    def finish(self) -> None:
        for segment, opened in zip(self._segments, self._opened, strict=True):
            if opened is None:
                self.lost.append(segment)
            elif isinstance(segment.tables, SealedTables):
                segment.tables.adopt(opened)

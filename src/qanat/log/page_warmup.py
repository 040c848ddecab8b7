"""Page warm-up: reads that would wait for the disk, done in a worker.

`is_resident` asks the kernel, without touching a page, whether memory can serve a read
from an offset. `PageWarmupJob` loads the pages through a scratch
buffer (which releases the interpreter lock, as touching a cold map would not)
and verifies checksums, so that damage is found before it is sent.
Both use the same range.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qanat.log.files import Buffer
from qanat.log.leader_epochs import EpochStart
from qanat.log.segments.batch_scan import Damage, read_batches
from qanat.log.segments.header_digest import EMPTY, digest_of, extended
from qanat.log.segments.index_tables import OpenTables, SealedTables
from qanat.log.segments.indexes import last_offset_at, positions_around
from qanat.log.segments.segment import Segment
from qanat.log.segments.verification import find_segment_damage, listed_epoch
from qanat.wire.batch_header import HEADER_SIZE, BatchHeader


def is_resident(segment: Segment, offset: int, max_bytes: int) -> bool:
    """Whether memory holds everything that a read of `max_bytes` from `offset` on touches, as far as is known."""
    tables = segment.tables
    if isinstance(tables, SealedTables) and not tables.are_offsets_resident():
        return False
    if segment.is_next_read(offset):
        start, end = segment.read_position, min(segment.read_position + max_bytes + HEADER_SIZE, segment.size)
    else:
        start, end = _range(segment, tables.offsets, offset, max_bytes, segment.size)
    return end <= start or segment.file.is_resident(start, end - start)


def _range(segment: Segment, offsets: Buffer, offset: int, max_bytes: int, size: int) -> tuple[int, int]:
    """The bytes that a read may touch: from the start of its walk to the header after its last batch."""
    start, latest = positions_around(offsets, max(offset - segment.base_offset, 0))
    if start >= size:
        return 0, size  # The file is shorter than it was: the walk starts at the very beginning.
    return start, size if latest is None else min(latest + max_bytes + HEADER_SIZE, size)


class CheckJob:
    """Scrubbing, step by step: reads a segment from its start, about `max_bytes` at a time, and verifies checksums.

    At the end it compares the headers with their digest. Batches appended after the first step are left to the next
    round.
    """

    def __init__(self, segment: Segment, max_bytes: int, epochs: Sequence[EpochStart] = ()) -> None:
        self._segment = segment
        self._size = segment.size
        self._headers = segment.headers
        self._epochs = epochs
        self._first_offset = segment.base_offset
        self._next_offset = segment.next_offset
        self._max_bytes = max_bytes
        self._digest = EMPTY
        self.position = 0
        self.damage: tuple[Damage, ...] = ()

    @property
    def is_done(self) -> bool:
        return self.position >= self._size

    def run(self) -> None:
        start, file = self.position, self._segment.file
        for position, header, _ in read_batches(file, start, self._size, self._first_offset, self._next_offset):
            self.position, self._first_offset = position + header.size, header.next_offset
            self._digest = extended(self._digest, header.base_offset, header.leader_epoch)
            if self.position - start >= self._max_bytes and not self.is_done:
                return
        if not self.is_done or (self._headers is not None and self._digest != self._headers.digest):
            # From the start, because only there the next offset is certain.
            self.damage = find_segment_damage(
                file, self._size, self._segment.base_offset, self._next_offset, self._headers, self._epochs
            )
            self.position = self._size

    def finish(self) -> None:
        self.damage = self._segment.note_damage(self.damage)


class PageWarmupJob:
    """Loads the pages that a read from `offset` on will touch, and verifies checksums, offsets and leader epochs.

    In a segment with holes a range of batches does not show whether their offsets are right: the first read of a
    sealed one compares all its headers with their digest.
    """

    def __init__(self, segment: Segment, offset: int, max_bytes: int, epochs: Sequence[EpochStart] = ()) -> None:
        self._segment = segment
        self._tables = segment.tables
        self._offset = offset
        self._max_bytes = max_bytes
        self._epochs = epochs
        self._size = segment.size
        self._next_offset = segment.next_offset
        self._known = segment.damage
        self._headers = segment.headers
        self._are_headers_checked = segment.are_headers_checked
        # Tables in memory grow meanwhile: they are read now.
        self._range = None if isinstance(self._tables, SealedTables) else self._range_by(self._tables.offsets)
        self._opened: OpenTables | None = None
        self.is_lost = False
        """Whether the tables are not what was sealed: they must be rebuilt before anything can be read."""
        self.damage: tuple[Damage, ...] = ()

    def _range_by(self, offsets: Buffer) -> tuple[int, int, int | None]:
        """Where the read may start and end, and the last offset of the first batch there, if it is known."""
        start, end = _range(self._segment, offsets, self._offset, self._max_bytes, self._size)
        return start, end, last_offset_at(offsets, start)

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
        if not self._is_sound(*touched) or not self._are_headers_sound():
            segment = self._segment
            self.damage = find_segment_damage(
                segment.file, self._size, segment.base_offset, self._next_offset, self._headers, self._epochs
            )
            self._are_headers_checked = segment.is_sealed

    def _is_sound(self, position: int, end: int, last_offset: int | None) -> bool:
        """Walk whole batches up to `end`, skipping known damage."""
        segment = self._segment
        is_dense = self._headers is not None and self._headers.is_dense and not self._are_headers_checked
        expected = segment.base_offset if is_dense and not position else None
        while position < end:
            stop = min((one.start for one in self._known if one.start >= position), default=self._size)
            for start, header, _ in read_batches(segment.file, position, stop, segment.base_offset, self._next_offset):
                if expected is None and last_offset is not None:
                    expected = segment.base_offset + last_offset - header.last_offset_delta
                if not self._is_in_place(header, expected if is_dense or last_offset is not None else None):
                    return False
                expected, last_offset = header.next_offset if is_dense else None, None
                position = start + header.size
                if position >= end:
                    return True
            if position < self._size:
                passed = next((one for one in self._known if one.start <= position < one.end), None)
                if passed is None:
                    return False
                position, expected, last_offset = passed.end, passed.next_offset if is_dense else None, None
        return True

    def _is_in_place(self, header: BatchHeader, expected: int | None) -> bool:
        if expected is not None and header.base_offset != expected:
            return False
        if self._headers is None or self._are_headers_checked:
            return True
        return header.leader_epoch == listed_epoch(self._epochs, header, header.base_offset)

    def _are_headers_sound(self) -> bool:
        """Whether the headers of a sealed segment with holes are what was sealed; checked once."""
        headers = self._headers
        if headers is None or headers.is_dense or self._are_headers_checked or not self._segment.is_sealed:
            return True
        self._are_headers_checked = True
        return digest_of(self._segment.file, self._size) == headers.digest

    def finish(self) -> None:
        if self._opened is not None and isinstance(self._tables, SealedTables):
            self._tables.hold(self._opened)
        self._segment.are_headers_checked = self._are_headers_checked
        self.damage = self._segment.note_damage(self.damage)


class LocateJob:
    """Searches a whole segment for the damage that a read has met."""

    def __init__(self, segment: Segment, epochs: Sequence[EpochStart] = ()) -> None:
        self._segment = segment
        self._epochs = epochs
        self.damage: tuple[Damage, ...] = ()

    def run(self) -> None:
        self.damage = self._segment.find_damage(self._epochs)

    def finish(self) -> None:
        self.damage = self._segment.note_damage(self.damage)


class OpenTablesJob:
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
                segment.tables.hold(opened)

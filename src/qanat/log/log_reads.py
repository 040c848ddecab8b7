"""Log reads: slices of mapped segments, sent without a copy.

A slice is warm when its pages are in memory. The event loop must not touch a cold
one: `page_warmup` reads it through a scratch buffer in a worker,
which loads the pages without holding the interpreter lock, and verifies
every batch's checksum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from qanat.log.page_warmup import is_resident
from qanat.log.segments.segment import Segment
from qanat.model.errors import CorruptLogError
from qanat.model.ids import TopicPartition


class Slice(NamedTuple):
    """Whole batches of one segment, by position."""

    segment: Segment
    start: int
    end: int
    view: memoryview
    """The bytes themselves, never a copy. Taken at once, because the segment may be closed before they are sent."""

    def is_resident(self) -> bool:
        return self.segment.file.is_resident(self.start, self.end - self.start)


class LogRead(NamedTuple):
    """The outcome of a read; empty where there are no records yet below the bound."""

    slices: tuple[Slice, ...]
    next_offset: int
    """Where to continue reading."""

    @property
    def size(self) -> int:
        return sum(part.end - part.start for part in self.slices)

    def views(self) -> list[memoryview]:
        """The buffers to write to a socket. Take them once the slices are warm."""
        return [part.view for part in self.slices if part.end > part.start]

    def is_resident(self) -> bool:
        return all(part.is_resident() for part in self.slices)


class Unready(NamedTuple):
    """A read that must wait for a worker, and what it waits for."""

    segment: Segment
    offset: int
    """Where the warm-up of the segment starts (`page_warmup.PageWarmupJob`)."""
    is_damaged: bool = False
    """Whether there was no batch where one should be (`page_warmup.LocateJob`)."""


def read_segments(
    segments: Sequence[Segment],
    index: int,
    offset: int,
    max_bytes: int,
    end_offset: int,
    at: TopicPartition,
    usable: Callable[[int], Segment] | None,
) -> LogRead | Unready:
    """Whole batches from `offset` on, which segment `index` may hold, up to `max_bytes` and below `end_offset`.

    `usable` opens a segment's tables, for callers that may wait for the disk. Without it, the read
    touches nothing that is not in memory.
    """
    slices: list[Slice] = []
    while offset < end_offset and index < len(segments) and (max_bytes > 0 or not slices):
        segment = segments[index]
        if slices or usable is None:
            if not is_resident(segment, offset, max_bytes):
                if not slices:
                    return Unready(segment, offset)
                break  # The next read starts here, after a warm-up.
        elif not segment.tables.is_checked:
            usable(index)
        start = segment.position_of(offset)
        if start < segment.size or (segment.damage and segment.damage_at(start)):
            view = segment.view()
            end = _slice_end(segment, view, start, max_bytes, end_offset, at, is_first=not slices)
            if end == start:
                break
            if end - start > max_bytes and usable is None and not segment.file.is_resident(start, end - start):
                return Unready(segment, offset)
            slices.append(Slice(segment, start, end, view[start:end]))
            max_bytes -= end - start
            if end < segment.size or (segment.damage and segment.damage_at(end)):
                next_offset = segment.offset_at(end, view)
                segment.read_offset, segment.read_position = next_offset, end
                return LogRead(tuple(slices), next_offset)
        index += 1
        offset = max(offset, segments[index].base_offset if index < len(segments) else segment.next_offset)
    return LogRead(tuple(slices), offset)


def _slice_end(
    segment: Segment,
    view: memoryview,
    start: int,
    max_bytes: int,
    end_offset: int,
    at: TopicPartition,
    *,
    is_first: bool,
) -> int:
    """The end of a read in a segment, from the batch at `start` on; `start` where the read takes nothing of it."""
    if segment.damage and (damage := segment.damage_at(start)) is not None:
        if not is_first:
            return start
        raise CorruptLogError(
            f"{at}: offsets {damage.first_offset} to {damage.next_offset} (exclusive) are "
            f"damaged on disk ({damage.reason}): restore them from a replica or a backup, "
            f"or read on from {damage.next_offset}"
        )
    end = segment.boundary_before(start + max_bytes, start, view)
    if end == start and is_first:
        end = segment.batch_end(start)
    if end_offset < segment.next_offset and (end == segment.size or segment.offset_at(end, view) > end_offset):
        # Looked up only below `end`: pages beyond may not be in memory.
        end = min(end, segment.position_of(end_offset))
    return max(start, end)

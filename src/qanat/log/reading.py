"""What a read hands out: slices of mapped segments, to be sent as they are.

A slice is warm when its pages are in memory. A cold one must not be touched on
the event loop: `scan.find_damage` reads it through a scratch buffer on a worker,
which brings the pages in without holding the interpreter lock, and compares
every batch's checksum on the way.
"""

from __future__ import annotations

from typing import NamedTuple

from qanat.log.segment import Segment


class Slice(NamedTuple):
    """Whole batches of one segment, by position."""

    segment: Segment
    start: int
    end: int
    view: memoryview
    """The bytes themselves, never a copy: taken at once, because the segment may be closed before they are sent."""

    def is_warm(self) -> bool:
        return self.segment.file.is_resident(self.start, self.end - self.start)


class LogRead(NamedTuple):
    """The outcome of a read; empty where there is nothing yet below the bound."""

    slices: tuple[Slice, ...]
    next_offset: int
    """Where to go on reading."""

    @property
    def size(self) -> int:
        return sum(part.end - part.start for part in self.slices)

    def views(self) -> list[memoryview]:
        """What to write to a socket. Take it once the slices are warm."""
        return [part.view for part in self.slices if part.end > part.start]

    def is_warm(self) -> bool:
        return all(part.is_warm() for part in self.slices)

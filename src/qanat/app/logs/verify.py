"""`qanat log verify`: read every byte of a data directory and find damage.

It only reads: it takes no lock and recovers nothing, so it runs beside a broker, whose newest records it may not see.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from qanat.app.logs.segment_files import segment_files
from qanat.app.logs.stored_segments import StoredSegment, gap_before, read_segment
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.app.terminal.progress import byte_progress

_SEGMENT_COLUMNS = ("partition", "base_offset", "next_offset", "records", "batches", "bytes", "sealed", "state")
_RANGE_COLUMNS = ("partition", "first_offset", "next_offset", "segment", "byte", "reason")


def verify(path: Path, *, ranges: bool = False, output: Output = "table") -> int:
    """Read every byte of a data directory, a partition's folder or one `.log` file and find damage.

    Compares checksums, the order of offsets, and offsets and leader epochs with the digests written with them. Lists
    the segments, then the damaged offsets, then says in one line whether all is sound. Exits with 1 if anything is
    damaged. It only reads, and runs beside a running broker.

        qanat log verify data/broker-0
        qanat log verify data/broker-0/orders-0 --ranges -o json

    Parameters
    ----------
    path:
        A data directory (`data/broker-0`), a partition's folder (`data/broker-0/orders-0`) or a segment.
    ranges:
        List only damage: which offsets, in which file, why.
    output:
        `table` for people, the others for programs.
    """
    files = segment_files(path)
    found: list[_Verified] = []
    with byte_progress("reading", sum(file.stat().st_size for file in files), "segments") as report_progress:
        size = 0
        for one in _verified(files):
            found.append(one)
            size += one.segment.size
            report_progress(size, len(found))
    damaged = [row for one in found for row in one.range_rows()]
    if not ranges:
        print_rows([one.row() for one in found], _SEGMENT_COLUMNS, output)
    if ranges or (damaged and output == "table"):
        print_rows(damaged, _RANGE_COLUMNS, output)
    if output == "table":
        print(_verdict(found, damaged))
    return 1 if damaged else 0


@dataclass(frozen=True, slots=True)
class _Verified:
    """A segment, and the offsets that are missing before it."""

    segment: StoredSegment
    gap: tuple[int, int] | None

    def row(self) -> Row:
        segment = self.segment
        gap = "" if self.gap is None else f"; offsets {self.gap[0]} to {self.gap[1] - 1} before it are missing"
        return {
            "partition": segment.path.parent.name,
            "base_offset": segment.base_offset,
            "next_offset": segment.next_offset,
            "records": segment.records,
            "batches": segment.batches,
            "bytes": segment.size,
            "sealed": segment.is_sealed,
            "state": f"{segment.state}{gap}",
        }

    def range_rows(self) -> Iterator[Row]:
        """Damage, one row for each range of offsets."""
        if self.gap is not None:
            yield self._range(*self.gap, None, "a segment is missing")
        for one in self.segment.damage if self.segment.is_damaged else ():
            yield self._range(one.first_offset, one.next_offset, one.start, one.reason)

    def _range(self, first_offset: int, next_offset: int, byte: int | None, reason: str) -> Row:
        return {
            "partition": self.segment.path.parent.name,
            "first_offset": first_offset,
            "next_offset": next_offset,
            "segment": self.segment.path.name,
            "byte": byte,
            "reason": reason,
        }


def _verified(paths: Iterable[Path]) -> Iterator[_Verified]:
    previous: StoredSegment | None = None
    for path in paths:
        segment = read_segment(path)
        yield _Verified(segment, gap_before(segment, previous))
        previous = segment


def _verdict(found: Sequence[_Verified], damaged: Sequence[Row]) -> str:
    partitions = len({one.segment.path.parent for one in found})
    whole = f"{len(found)} segments of {partitions} partitions, {sum(one.segment.size for one in found):,} bytes"
    if not damaged:
        return f"sound: {whole}"
    hit = len({row["partition"] for row in damaged})
    return f"damaged: {len(damaged)} ranges of offsets in {hit} partitions; read {whole}"

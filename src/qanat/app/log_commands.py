"""`qanat log`: look into data directories as they lie on disk.

These commands read only. They take no lock and recover nothing, so they can be
used beside a running broker (whose newest records they may not see) and on a
directory that somebody suspects.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from qanat.app.stored_segments import StoredSegment, batches_of, gap_before, look_at
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.app.terminal.progress import told_bytes
from qanat.log.segments import file_names
from qanat.model.errors import InvalidSettingError, QanatError, StorageError
from qanat.wire.compression import Codec
from qanat.wire.records import decode_records

_DECODED_BYTES_MAX = 64 * 1024 * 1024
_SEGMENT_COLUMNS = ("partition", "base_offset", "next_offset", "records", "batches", "bytes", "sealed", "state")
_RANGE_COLUMNS = ("partition", "first_offset", "next_offset", "segment", "byte", "reason")
_BATCH_COLUMNS = (
    "position",
    "base_offset",
    "last_offset",
    "records",
    "bytes",
    "codec",
    "leader_epoch",
    "producer",
    "kind",
)
_RECORD_COLUMNS = ("offset", "timestamp", "key", "value", "headers")


def verify(path: Path, *, ranges: bool = False, output: Output = "table") -> int:
    """Read every byte of a data directory, a partition's folder or one `.log` file and find what is damaged.

    Compares checksums, the order of offsets, and offsets and leader epochs with the digests written with them. Names
    the segments, then the damaged offsets, then says in one line whether all is sound. Exits with 1 if anything is
    damaged. It only reads, and can be used beside a running broker.

        qanat log verify data/broker-0
        qanat log verify data/broker-0/orders-0 --ranges -o json

    Parameters
    ----------
    path:
        A data directory (`data/broker-0`), a partition's folder (`data/broker-0/orders-0`) or a segment.
    ranges:
        Name only what is damaged: which offsets, in which file, why.
    output:
        `table` for people, the others for programs.
    """
    files = _segment_files(path)
    found: list[_Verified] = []
    with told_bytes("reading", sum(file.stat().st_size for file in files), "segments") as tell:
        size = 0
        for one in _verified(files):
            found.append(one)
            size += one.segment.size
            tell(size, len(found))
    damaged = [row for one in found for row in one.range_rows()]
    if not ranges:
        print_rows([one.row() for one in found], _SEGMENT_COLUMNS, output)
    if ranges or (damaged and output == "table"):
        print_rows(damaged, _RANGE_COLUMNS, output)
    if output == "table":
        print(_verdict(found, damaged))
    return 1 if damaged else 0


def dump(path: Path, *, records: bool = False, limit: int | None = None, output: Output = "table") -> int:
    """Show the batches, or with --records the records, of one segment file.

        qanat log dump data/broker-0/orders-0/00000000000000000000.log --records --limit 10

    Parameters
    ----------
    path:
        A `.log` file.
    records:
        Open the batches and show what is inside.
    limit:
        Stop after this many rows.
    output:
        `table` for people, the others for programs.
    """
    file = _single_file(path)
    if limit is not None and limit < 1:
        raise InvalidSettingError(f"--limit {limit}: give a number of rows, at least 1")
    rows = _record_rows(file) if records else _batch_rows(file)
    shown = (row for _, row in zip(range(limit), rows, strict=False)) if limit is not None else rows
    print_rows(shown, _RECORD_COLUMNS if records else _BATCH_COLUMNS, output)
    segment = look_at(file)
    if not segment.damage:
        return 0
    print(f"qanat: {file}: {segment.state}; nothing from there on is shown", file=sys.stderr)
    return 1


def _segment_files(path: Path) -> list[Path]:
    if path.is_file():
        return [_single_file(path)]
    found = sorted(path.glob("*.log")) or sorted(path.glob("*-*/*.log")) or sorted(path.glob("broker-*/*-*/*.log"))
    found = [file for file in found if file_names.offset_of(file.name, file_names.LOG) is not None]
    if not found:
        raise StorageError(
            f"there is no log in {path}: give a data directory such as data/broker-0, a partition's folder in it, "
            "or one .log file"
        )
    return found


def _single_file(path: Path) -> Path:
    if not path.is_file():
        raise StorageError(f"{path} is no file: give a segment such as data/broker-0/orders-0/{0:020d}.log")
    if file_names.offset_of(path.name, file_names.LOG) is None:
        raise StorageError(f"{path} is no segment: its name should be 20 digits and end in .log")
    return path


@dataclass(frozen=True, slots=True)
class _Verified:
    """A segment, and what is missing before it."""

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
        """What is damaged, one row for each range of offsets."""
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
        segment = look_at(path)
        yield _Verified(segment, gap_before(segment, previous))
        previous = segment


def _verdict(found: Sequence[_Verified], damaged: Sequence[Row]) -> str:
    partitions = len({one.segment.path.parent for one in found})
    whole = f"{len(found)} segments of {partitions} partitions, {sum(one.segment.size for one in found):,} bytes"
    if not damaged:
        return f"sound: {whole}"
    hit = len({row["partition"] for row in damaged})
    return f"damaged: {len(damaged)} ranges of offsets in {hit} partitions; read {whole}"


def _batch_rows(path: Path) -> Iterator[Row]:
    for position, header, _ in batches_of(path):
        kinds = [
            name
            for name, holds in (("control", header.is_control), ("transactional", header.is_transactional))
            if holds
        ]
        yield {
            "position": position,
            "base_offset": header.base_offset,
            "last_offset": header.last_offset,
            "records": header.record_count,
            "bytes": header.size,
            "codec": Codec(header.codec).name.lower(),
            "leader_epoch": header.leader_epoch,
            "producer": None if header.producer_id < 0 else f"{header.producer_id}/{header.producer_epoch}",
            "kind": " ".join(kinds) or "data",
        }


def _record_rows(path: Path) -> Iterator[Row]:
    for _, header, batch in batches_of(path):
        try:
            for record in decode_records(batch, _DECODED_BYTES_MAX):
                yield {
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "key": _text(record.key),
                    "value": _text(record.value),
                    "headers": " ".join(f"{_text(key.encode())}={_text(value)}" for key, value in record.headers),
                }
        except QanatError as fault:
            raise StorageError(f"{path}: the batch at offset {header.base_offset} cannot be opened: {fault}") from fault


def _text(content: bytes | None) -> str | None:
    """Text where it is text; bytes that are not are shown escaped, so that nothing reaches the terminal raw."""
    if content is None:
        return None
    text = content.decode("utf-8", errors="backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")

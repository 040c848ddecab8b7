"""Segments on disk, read without changing, locking or recovering anything."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import UnsetType

from qanat.log.directories import checkpoints
from qanat.log.directories.directory import CLEAN_SHUTDOWN
from qanat.log.directories.partition_folders import parse_folder
from qanat.log.leader_epochs import EpochStart, LeaderEpochs
from qanat.log.segments import file_names
from qanat.log.segments.batch_scan import Damage, find_damage, read_batches
from qanat.log.segments.header_digest import HeaderPoint
from qanat.log.segments.sidecar import Sidecar, decode_sidecar
from qanat.log.segments.verification import find_segment_damage, merged
from qanat.model.errors import StorageError
from qanat.wire.batch_header import BatchHeader
from qanat.wire.crc import crc32c


class ReadOnlyFile:
    """The reading part of the port `log.files.File`, for files without write permission."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        try:
            self._descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror}") from error

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, position: int, length: int) -> bytearray:
        length = max(0, min(length, self.size() - position))
        return bytearray(os.pread(self._descriptor, length, position))


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """The content of one `.log` file."""

    path: Path
    base_offset: int
    next_offset: int
    """After the last readable record; after all of them where the segment is sealed."""
    records: int
    batches: int
    size: int
    is_sealed: bool
    damage: tuple[Damage, ...]
    lost_tables: tuple[str, ...] = ()
    """Suffixes of its index files that have to be rebuilt."""

    @property
    def has_open_tail(self) -> bool:
        """Whether its last bytes may be a write in progress: nothing sound follows them, and the log was not closed."""
        ends_unsound = len(self.damage) == 1 and self.damage[0].end == self.size
        return ends_unsound and not self.is_sealed and not (self.path.parent.parent / CLEAN_SHUTDOWN).exists()

    @property
    def state(self) -> str:
        if not self.damage:
            lost = " and ".join(self.lost_tables)
            return f"sound, {lost} to be rebuilt" if lost else "sound"
        first = self.damage[0]
        if self.has_open_tail:
            return f"open tail of {self.size - first.start} bytes"
        return f"damaged at byte {first.start}: {first.reason}"

    @property
    def is_damaged(self) -> bool:
        return bool(self.damage) and not self.has_open_tail


def batches_of(path: Path) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """The batches of a segment, up to the first unreadable one."""
    file = ReadOnlyFile(path)
    return read_batches(file, 0, file.size(), file_names.offset_of(path.name, file_names.LOG) or 0)


def read_segment(path: Path) -> StoredSegment:
    """Read every byte of a segment; compare checksums, the order of offsets, and headers with their digest."""
    base_offset = file_names.offset_of(path.name, file_names.LOG) or 0
    file, sidecar, known = ReadOnlyFile(path), _sidecar(path), _known_epochs(path)
    size, records, batches, next_offset = file.size(), 0, 0, base_offset
    damage = _damage(path, file, size, sidecar, known)
    position = 0
    for one in (*damage, Damage(size, size, next_offset, next_offset, "")):
        for _, header, _ in read_batches(file, position, one.start, base_offset):
            records, batches, next_offset = records + header.record_count, batches + 1, header.next_offset
        position, next_offset = one.end, max(next_offset, one.next_offset)
    end_offset = next_offset if sidecar is None else sidecar.next_offset
    return StoredSegment(
        path,
        base_offset,
        end_offset,
        records,
        batches,
        size,
        sidecar is not None,
        damage,
        tuple(_lost_tables(path, sidecar)),
    )


def _damage(
    path: Path, file: ReadOnlyFile, size: int, sidecar: Sidecar | None, epochs: Sequence[EpochStart]
) -> tuple[Damage, ...]:
    base_offset = file_names.offset_of(path.name, file_names.LOG) or 0
    if sidecar is None:
        return _damage_of_open(path, file, size, base_offset, epochs)
    headers = None if isinstance(sidecar.headers, UnsetType) else sidecar.headers
    is_whole = sidecar.size == size
    found = find_segment_damage(file, size, base_offset, sidecar.next_offset, headers if is_whole else None, epochs)
    if not is_whole:
        last = max((one.next_offset for one in found), default=_end_offset(file, size, base_offset))
        reason = f"{sidecar.size} bytes were sealed, {size} are there"
        found = (*found, Damage(size, size, last, max(last, sidecar.next_offset), reason))
    return merged(sidecar.damage, found)


def _damage_of_open(
    path: Path, file: ReadOnlyFile, size: int, base_offset: int, epochs: Sequence[EpochStart]
) -> tuple[Damage, ...]:
    """Damage of an active segment: up to where a checkpoint knows its headers, and after that."""
    point = _known_point(path, base_offset)
    if point is None or point.size > size:
        end_offset = _end_offset(file, size, base_offset)
        return tuple(find_damage(file, 0, size, base_offset, end_offset))
    found = find_segment_damage(file, point.size, base_offset, point.next_offset, point.headers, epochs)
    return (*found, *find_damage(file, point.size, size, point.next_offset, point.next_offset))


def _end_offset(file: ReadOnlyFile, size: int, base_offset: int) -> int:
    """The offset after the last batch before the first unreadable one."""
    return max((header.next_offset for _, header, _ in read_batches(file, 0, size, base_offset)), default=base_offset)


def _known_epochs(path: Path) -> Sequence[EpochStart]:
    file = path.parent / file_names.LEADER_EPOCHS
    epochs = LeaderEpochs.decode(file.read_bytes()) if file.exists() else None
    return epochs.entries if epochs is not None else ()


def _known_point(path: Path, base_offset: int) -> HeaderPoint | None:
    """The header digest of a segment in the data directory's checkpoint."""
    folder, at = path.parent.parent, parse_folder(path.parent.name)
    files = {name: _content(folder / name) for name in (*checkpoints.FILES, checkpoints.HEADERS)}
    hint = checkpoints.decode_files(files).get(at) if at is not None else None
    point = hint.headers if hint is not None else None
    return point if point is not None and point.base_offset == base_offset else None


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _lost_tables(path: Path, sidecar: Sidecar | None) -> Iterator[str]:
    """Index files of a sealed segment that differ from what was sealed: the log rebuilds them when it needs them."""
    if sidecar is None:
        if path.with_suffix(file_names.SIDECAR).exists():
            yield file_names.SIDECAR
        return
    sums = sidecar.checksums
    for suffix, checksum in (
        (file_names.OFFSET_INDEX, sums.offset_index),
        (file_names.TIME_INDEX, sums.time_index),
        (file_names.ABORTED_INDEX, sums.aborted_index),
    ):
        if crc32c(_content(path.with_suffix(suffix)) or b"") != checksum:
            yield suffix


def gap_before(segment: StoredSegment, previous: StoredSegment | None) -> tuple[int, int] | None:
    """The offsets that are missing between a segment and the one before it in its partition; the end is exclusive."""
    if previous is None or previous.path.parent != segment.path.parent or not previous.is_sealed:
        return None
    if previous.next_offset >= segment.base_offset:
        return None
    return previous.next_offset, segment.base_offset


def _sidecar(path: Path) -> Sidecar | None:
    sidecar_path = path.with_suffix(file_names.SIDECAR)
    sidecar = decode_sidecar(sidecar_path.read_bytes(), str(sidecar_path)) if sidecar_path.exists() else None
    if sidecar is not None:
        sidecar.require_key(None, str(sidecar_path))
    return sidecar

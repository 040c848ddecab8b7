"""Segments as they lie on disk, looked at without changing, locking or recovering anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from qanat.log import names
from qanat.log.directory import CLEAN_SHUTDOWN
from qanat.log.scan import Damage, find_damage, read_batches
from qanat.log.sidecar import Sidecar, decode_sidecar
from qanat.model.errors import StorageError
from qanat.wire.batch_header import BatchHeader


class ReadOnlyFile:
    """As much of the port `log.files.File` as reading takes, for files that one may only read."""

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
    """What one `.log` file holds."""

    path: Path
    base_offset: int
    next_offset: int
    """After the last readable record; after all of them where the segment is sealed."""
    records: int
    batches: int
    size: int
    is_sealed: bool
    damage: tuple[Damage, ...]

    @property
    def has_open_tail(self) -> bool:
        """Whether its last bytes may be a write in progress: nothing sound behind them, and nobody closed the log."""
        ends_unsound = len(self.damage) == 1 and self.damage[0].end == self.size
        return ends_unsound and not self.is_sealed and not (self.path.parent.parent / CLEAN_SHUTDOWN).exists()

    @property
    def state(self) -> str:
        if not self.damage:
            return "sound"
        first = self.damage[0]
        if self.has_open_tail:
            return f"open tail of {self.size - first.start} bytes"
        return f"damaged at byte {first.start}: {first.reason}"

    @property
    def is_damaged(self) -> bool:
        return bool(self.damage) and not self.has_open_tail


def batches_of(path: Path) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """The readable batches of a segment, up to the first that is not."""
    file = ReadOnlyFile(path)
    return read_batches(file, 0, file.size(), names.offset_of(path.name, names.LOG) or 0)


def look_at(path: Path) -> StoredSegment:
    """Read every byte of a segment and compare checksums."""
    base_offset = names.offset_of(path.name, names.LOG) or 0
    file, sidecar = ReadOnlyFile(path), _sidecar(path)
    size, position, records, batches, next_offset = file.size(), 0, 0, 0, base_offset
    for position, header, _ in read_batches(file, 0, size, base_offset):
        position += header.size
        records, batches, next_offset = records + header.record_count, batches + 1, header.next_offset
    end_offset = next_offset if sidecar is None else sidecar.next_offset
    damage = list(find_damage(file, position, size, next_offset, end_offset)) if position < size else []
    if sidecar is not None and sidecar.size != size:
        damage.append(
            Damage(size, size, next_offset, end_offset, f"{sidecar.size} bytes were sealed, {size} are there")
        )
    return StoredSegment(path, base_offset, end_offset, records, batches, size, sidecar is not None, tuple(damage))


def gap_before(segment: StoredSegment, previous: StoredSegment | None) -> str | None:
    """What is missing between a segment and the one before it in the same partition."""
    if previous is None or previous.path.parent != segment.path.parent or not previous.is_sealed:
        return None
    if previous.next_offset >= segment.base_offset:
        return None
    return f"offsets {previous.next_offset} to {segment.base_offset - 1} before it are missing"


def _sidecar(path: Path) -> Sidecar | None:
    beside = path.with_suffix(names.SIDECAR)
    sidecar = decode_sidecar(beside.read_bytes(), str(beside)) if beside.exists() else None
    if sidecar is not None:
        sidecar.require_key(None, str(beside))
    return sidecar

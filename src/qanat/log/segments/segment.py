# cython: language_level=3, annotation_typing=False
"""One segment: a `.log` file of bare batches, its look-up tables and, once sealed, its sidecar.

An open segment grows by `append`. When the log rolls to the next segment, this one is
closed; once its bytes are on disk it is sealed: its sidecar is written and it never
changes again.

Rule 1: `size` is authoritative. Bytes of the file beyond it are garbage that no reader ever sees.
Rule 2: a position passed in or returned is the start of a batch, or `size`.

`partition_log` decides which segment an offset belongs to; `recovery` handles what a dead
process left behind. Compiled and interpreted like `log.partition_log`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct

import msgspec

from qanat.log.atomic_files import replace
from qanat.log.files import Buffer, File, Files
from qanat.log.leader_epochs import EpochStart
from qanat.log.segments import file_names
from qanat.log.segments.batch_scan import Damage
from qanat.log.segments.header_digest import EMPTY, HeaderDigest, extended
from qanat.log.segments.index_tables import GrowingTables, SealedTables, add_digest
from qanat.log.segments.indexes import batch_start_before, offset_before_timestamp, position_before
from qanat.log.segments.sidecar import Sidecar, encode_sidecar
from qanat.log.segments.verification import find_segment_damage, merged
from qanat.model.errors import CorruptLogError, QanatError, UnreadableSegmentError
from qanat.model.ids import NO_TIMESTAMP
from qanat.wire.batch_header import HEADER_SIZE, BatchHeader, read_header
from qanat.wire.crc import crc32c

MAX_RELATIVE_OFFSET = 2**31 - 1
_EXTENT = Struct(">qi11xi")
"""Base offset, batch length and last offset delta: enough to walk from batch to batch."""
_BEFORE_LENGTH = 12
_NOTHING_CHECKSUM = crc32c(b"")


class BatchNotFoundError(CorruptLogError):
    """There is no batch where one should be; the extent of the damage is not known yet (`locate_damage`)."""

    def __init__(self, segment: Segment, position: int) -> None:
        self.segment = segment
        super().__init__(
            f"{segment.file.path} holds no batch at byte {position}: it is damaged there; "
            "restore the partition from a replica or a backup"
        )


class Segment:
    """Records from `base_offset` to `next_offset` (exclusive)."""

    __slots__ = (
        "are_headers_checked",
        "base_offset",
        "damage",
        "digest",
        "directory",
        "file",
        "files",
        "first_append_ms",
        "is_dense",
        "is_digested",
        "last_batch_end_offset",
        "last_batch_offset",
        "last_batch_position",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "read_offset",
        "read_position",
        "shown_size",
        "sidecar",
        "size",
        "tables",
    )

    def __init__(self, files: Files, directory: str, base_offset: int, file: File, interval_bytes: int) -> None:
        self.files = files
        self.directory = directory
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.file = file
        self.size = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.first_append_ms: int | None = None
        self.last_batch_position = 0
        """The position and offsets of the latest batch: consumers at the end of the log read nothing else."""
        self.last_batch_offset = base_offset
        self.last_batch_end_offset = base_offset
        self.digest = EMPTY
        """The header digest of all batches (`header_digest`); valid while `is_digested`."""
        self.is_digested = True
        self.is_dense = True
        """Whether each batch starts where the one before it ends."""
        self.tables: GrowingTables | SealedTables = GrowingTables(base_offset, interval_bytes)
        self.shown_size = 0
        """How many bytes views may show."""
        self.read_offset = base_offset
        """Where the latest read ended: a reader that continues there starts at `read_position`, without a look-up."""
        self.read_position = 0
        self.sidecar: Sidecar | None = None
        self.damage: tuple[Damage, ...] = ()
        self.are_headers_checked = False
        """Whether this process has verified the header digest of a sealed segment."""

    def __copy__(self) -> Segment:
        """The segment as it is now, with the same file and tables: for a job that walks it while it grows."""
        other = Segment.__new__(Segment)
        for name in _FIELDS:
            setattr(other, name, getattr(self, name))
        return other

    def __repr__(self) -> str:
        state = "sealed" if self.is_sealed else "open"
        return f"<Segment {self.base_offset}..{self.next_offset} {self.size} bytes {state}>"

    @staticmethod
    def create(files: Files, directory: str, base_offset: int, interval_bytes: int) -> Segment:
        """A new, empty segment; its name is durable once the folder is synced."""
        file = files.open(file_names.segment_file(directory, base_offset, file_names.LOG), create=True)
        return Segment(files, directory, base_offset, file, interval_bytes)

    @staticmethod
    def sealed(files: Files, directory: str, base_offset: int, sidecar: Sidecar) -> Segment:
        """A complete segment as its sidecar describes it; its files are opened, not read."""
        file = files.open(file_names.segment_file(directory, base_offset, file_names.LOG))
        try:
            sidecar.require_key(file.key_id, file_names.segment_file(directory, base_offset, file_names.SIDECAR))
        except UnreadableSegmentError:
            file.close()
            raise
        segment = Segment(files, directory, base_offset, file, 0)
        segment.size = sidecar.size
        segment.next_offset = sidecar.next_offset
        segment.max_timestamp = sidecar.max_timestamp
        segment.max_timestamp_offset = sidecar.max_timestamp_offset
        segment.damage = sidecar.damage
        segment.become_sealed(sidecar)
        return segment

    @property
    def is_sealed(self) -> bool:
        return self.sidecar is not None

    @property
    def has_aborted(self) -> bool:
        """Whether an aborted transaction ends here; read from the sidecar, not from the disk."""
        if self.sidecar is not None:
            return self.sidecar.checksums.aborted_index != _NOTHING_CHECKSUM
        return bool(self.tables.aborted)

    @property
    def headers(self) -> HeaderDigest | None:
        """The header digest; None where it is not known."""
        if self.sidecar is not None:
            return None if isinstance(self.sidecar.headers, msgspec.UnsetType) else self.sidecar.headers
        return HeaderDigest(self.digest, self.is_dense) if self.is_digested else None

    def path(self, suffix: str) -> str:
        return file_names.segment_file(self.directory, self.base_offset, suffix)

    def view(self) -> memoryview:
        if self.size > self.shown_size:
            self.shown_size = self.size
        return self.file.view(self.size)

    def all_files(self) -> list[str]:
        """The log first: without it the others mean nothing."""
        return [self.path(suffix) for suffix in (file_names.LOG, *file_names.COMPANION_SUFFIXES)]

    def close(self) -> None:
        self.file.close()
        if isinstance(self.tables, SealedTables):
            self.tables.close()

    # Writing

    def reset(self) -> None:
        """Forget all entered batches: the caller enters them again."""
        assert isinstance(self.tables, GrowingTables), "a sealed segment never changes"
        Segment.__init__(self, self.files, self.directory, self.base_offset, self.file, self.tables.interval_bytes)

    def is_full(self, size: int, last_offset: int, now_ms: int, segment_bytes: int, age_ms: int) -> bool:
        """Whether a batch must go into the next segment: for its size, its distance, or the age of this one."""
        if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if not self.size:
            return False
        is_old = self.first_append_ms is not None and now_ms - self.first_append_ms >= age_ms
        return is_old or self.size + size > segment_bytes

    def append_fast(
        self, batch: memoryview, size: int, base_offset: int, last_offset: int, leader_epoch: int, max_timestamp: int
    ) -> None:
        """Write one batch at the end. A write that fails leaves the segment as it was."""
        try:
            self.file.write((batch,), self.size)
        except QanatError:
            self.file.truncate(self.size)
            raise
        self.enter(self.size, size, base_offset, last_offset, leader_epoch, max_timestamp)

    def append(
        self,
        chunks: tuple[Buffer, ...],
        size: int,
        base_offset: int,
        last_offset: int,
        leader_epoch: int,
        max_timestamp: int,
    ) -> None:
        """Write one batch at the end. A write that fails leaves the segment as it was."""
        position = self.size
        try:
            self.file.write(chunks, position)
        except QanatError:
            self.file.truncate(position)
            raise
        self.enter(position, size, base_offset, last_offset, leader_epoch, max_timestamp)

    def enter(
        self, position: int, size: int, base_offset: int, last_offset: int, leader_epoch: int, max_timestamp: int
    ) -> None:
        """Add a batch that is in the file at `position` to the tables and to the segment's extent."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        assert isinstance(self.tables, GrowingTables), "a sealed segment never changes"
        tables = self.tables
        if tables.bytes_since_entry > tables.interval_bytes:
            tables.digests += add_digest(self.digest)
            tables.enter(position, size, last_offset, self.max_timestamp, self.max_timestamp_offset)
        else:
            tables.bytes_since_entry += size
        if base_offset != self.next_offset:
            self.is_dense = False
        self.digest = extended(self.digest, base_offset, leader_epoch)
        self.last_batch_position = position
        self.last_batch_offset = self.next_offset
        self.size = position + size
        self.next_offset = self.last_batch_end_offset = last_offset + 1

    def enter_header(self, position: int, header: BatchHeader, max_timestamp: int | None = None) -> None:
        """Enter a batch that is in the file at `position`, as its header describes it."""
        newest = header.newest_timestamp if max_timestamp is None else max_timestamp
        self.enter(position, header.size, header.base_offset, header.last_offset, header.leader_epoch, newest)

    # Sealing

    def describe(self) -> Sidecar:
        """The sidecar that this segment would get if it were sealed now."""
        assert isinstance(self.tables, GrowingTables), "a sealed segment has its sidecar"
        self.tables.enter_timestamp(self.max_timestamp, self.max_timestamp_offset)
        return Sidecar(
            size=self.size,
            next_offset=self.next_offset,
            max_timestamp=self.max_timestamp,
            max_timestamp_offset=self.max_timestamp_offset,
            checksums=self.tables.checksums(),
            damage=self.damage,
            key_id=self.file.key_id,
            headers=msgspec.UNSET if self.damage or self.headers is None else self.headers,
        )

    def write_seal(self, sidecar: Sidecar) -> None:
        """Make a closed segment durable, then write its sidecar (in a worker; `become_sealed` follows)."""
        assert isinstance(self.tables, GrowingTables), "sealed once"
        self.file.sync()
        self.tables.write(self.files, self.directory)
        replace(self.files, self.path(file_names.SIDECAR), encode_sidecar(sidecar))

    def become_sealed(self, sidecar: Sidecar) -> None:
        self.sidecar = sidecar
        if isinstance(self.tables, SealedTables):
            self.tables.close()
        self.tables = SealedTables(self.files, self.directory, self.base_offset, sidecar.checksums)

    def keep_in_memory(self, tables: GrowingTables | SealedTables) -> None:
        """Use these tables, for which the disk has no room; the next start builds them again."""
        if isinstance(self.tables, SealedTables):
            self.tables.close()
        self.tables = tables

    # Looking up

    def is_next_read(self, offset: int) -> bool:
        """Whether a read from `offset` on continues where the latest one ended, at `read_position`."""
        return offset == self.read_offset and self.read_position < self.size and not self.damage

    def position_of(self, offset: int) -> int:
        """The position of the first batch that ends at or after `offset`; `size` where there is none."""
        if offset >= self.next_offset:
            return self.size
        if self.is_next_read(offset):
            self._extent(self.view(), self.read_position)
            return self.read_position
        if not self.damage and self.last_batch_offset <= offset < self.last_batch_end_offset:
            return self.last_batch_position
        position = position_before(self.tables.offsets, max(offset - self.base_offset, 0))
        if position >= self.size:
            position = 0  # The file is shorter than it was: damage somewhere before will report it.
        view = self.view()
        while position < self.size:
            if self.damage and (damage := self.damage_at(position)) is not None:
                if offset < damage.next_offset:
                    return position
                position = damage.end
                continue
            base_offset, length, delta = self._extent(view, position)
            if base_offset + delta >= offset:
                return position
            position += length + _BEFORE_LENGTH
        return self.size

    def _extent(self, view: memoryview, position: int) -> tuple[int, int, int]:
        """Base offset, length and last offset delta of the batch at `position`, whose checksum may be unverified."""
        if self.size - position >= HEADER_SIZE:
            base_offset, length, delta = _EXTENT.unpack_from(view, position)
            fits = HEADER_SIZE <= length + _BEFORE_LENGTH <= self.size - position
            if fits and delta >= 0 and self.base_offset <= base_offset <= self.next_offset - delta - 1:
                return base_offset, length, delta
        raise BatchNotFoundError(self, position)

    def boundary_before(self, limit: int, start: int, view: memoryview) -> int:
        """The last end of a whole batch at or before `limit`, from the batch at `start` on; `start` where none fits."""
        for damage in self.damage:
            if start < damage.start < limit:
                limit = damage.start
        if limit >= self.size:
            return self.size
        position = batch_start_before(self.tables.offsets, limit)
        if position < start:
            position = start
        while position < limit:
            end = position + self._extent(view, position)[1] + _BEFORE_LENGTH
            if end > limit:
                break
            position = end
        return position

    def batch_end(self, position: int) -> int:
        """Where the batch at `position` ends."""
        return position + self._extent(self.view(), position)[1] + _BEFORE_LENGTH

    def offset_at(self, position: int, view: memoryview) -> int:
        """Base offset of the batch at `position`, or the first offset lost to damage there."""
        damage = self.damage_at(position) if self.damage else None
        return self._extent(view, position)[0] if damage is None else damage.first_offset

    def position_of_timestamp(self, timestamp: int) -> int:
        """The position of the first batch with a record as new as `timestamp`; `size` where there is none."""
        if timestamp > self.max_timestamp:
            return self.size
        first_offset = self.base_offset + offset_before_timestamp(self.tables.times, timestamp)
        for position, header in self.batches(self.position_of(first_offset)):
            if header.newest_timestamp >= timestamp:
                return position
        return self.size

    def batches(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from `position` on, without damage."""
        view = self.view()
        end = len(view)
        walked_from = position
        while position < end:
            if self.damage and (damage := self.damage_at(position)) is not None:
                position = damage.end
                continue
            try:
                self._extent(view, position)
            except BatchNotFoundError:
                self.locate_damage()
                # Either this is damage, or the batch before it is, and its length was wrong.
                if self.damage_at(position) is None and self.damage_at(walked_from) is None:
                    raise
                position = position if self.damage_at(position) is not None else walked_from
                continue
            header = read_header(view, position)
            yield position, header
            walked_from, position = position, position + header.size

    def batch(self, position: int) -> memoryview:
        """The bytes of the batch at `position`."""
        return self.view()[position : self.batch_end(position)]

    # Damage

    def damage_at(self, position: int) -> Damage | None:
        """Damage that covers `position`; bytes that are lost altogether are damage at the very end."""
        return next((one for one in self.damage if one.start <= position < max(one.end, one.start + 1)), None)

    def find_damage(self, epochs: Sequence[EpochStart] = ()) -> tuple[Damage, ...]:
        """All damage, found by reading the whole file: for callers that may wait for the disk.

        `epochs` helps to name a wrong leader epoch.
        """
        found = find_segment_damage(self.file, self.size, self.base_offset, self.next_offset, self.headers, epochs)
        return merged(self.damage, found)

    def locate_damage(self) -> None:
        self.damage = self.find_damage()

    def note_damage(self, found: Iterable[Damage]) -> tuple[Damage, ...]:
        """Report damage to readers from now on; returns what was not known before."""
        known = self.damage
        together = merged(known, tuple(found))
        if len(together) > len(known):
            self.damage = together
        return tuple(one for one in together if one not in known)


_FIELDS = Segment.__slots__


class ClosedSegment(msgspec.Struct):
    """A segment that the log has rolled from and that waits to be sealed."""

    segment: Segment
    sidecar: Sidecar
    snapshot: bytes
    """Producer state at the segment's end."""

# cython: language_level=3, annotation_typing=False
"""A segment's look-up tables: in memory while the segment grows, in files once it is sealed.

A crash may lose or tear the files without harm: their checksums are in the sidecar and are
verified when the files are opened, and a segment whose tables are lost is replayed
(`state_replay.RebuildJob`).

Rule: a worker opens files (`open`), the owner's thread installs them (`hold`).
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from qanat.log.atomic_files import read_whole, write_volatile
from qanat.log.files import Buffer, File, Files
from qanat.log.segments import file_names
from qanat.log.segments.aborted_index import ENTRY_SIZE as ABORTED_ENTRY_SIZE
from qanat.log.segments.aborted_index import AbortedTransaction, decode_aborted, encode_aborted
from qanat.log.segments.header_digest import EMPTY
from qanat.log.segments.indexes import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    add_offset_entry,
    add_time_entry,
    batch_start_before,
    last_time_offset,
    last_timestamp,
    number_of_entry,
)
from qanat.log.segments.sidecar import TableChecksums
from qanat.wire.crc import crc32c

_ANYWHERE = 2**32
_DIGEST = Struct(">Q")
add_digest = _DIGEST.pack
"""A digest -> the bytes to append to `GrowingTables.digests`."""


class GrowingTables:
    """The tables of a segment that is being written: plain buffers."""

    __slots__ = (
        "aborted",
        "base_offset",
        "bytes_since_entry",
        "digests",
        "interval_bytes",
        "last_timestamp",
        "offsets",
        "times",
    )

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.base_offset = base_offset
        self.interval_bytes = min(interval_bytes, _ANYWHERE)
        self.bytes_since_entry = 0
        self.last_timestamp = -1
        self.offsets = bytearray()
        self.digests = bytearray()
        """The header digest before each batch that `offsets` lists; only of the latest ones, where the others were read
        back from a file."""
        self.times = bytearray()
        self.aborted: list[AbortedTransaction] = []

    is_checked = True
    """Tables in memory are always usable."""

    def check(self) -> bool:
        return True

    def enter(self, position: int, size: int, last_offset: int, max_timestamp: int, max_timestamp_offset: int) -> None:
        """Add the batch at `position`; one entry per `interval_bytes`."""
        if self.bytes_since_entry > self.interval_bytes:
            self.offsets += add_offset_entry(last_offset - self.base_offset, position)
            if max_timestamp > self.last_timestamp:
                self.enter_timestamp(max_timestamp, max_timestamp_offset)
            self.bytes_since_entry = 0
        self.bytes_since_entry += size

    def enter_timestamp(self, timestamp: int, offset: int) -> None:
        """Add the newest timestamp so far and the batch that has it."""
        if timestamp > self.last_timestamp:
            self.times += add_time_entry(timestamp, offset - self.base_offset)
            self.last_timestamp = timestamp

    def digest_before(self, position: int) -> int | None:
        """The header digest before the batch at `position`, which has an entry or is the first; None if not known."""
        if not position:
            return EMPTY
        later = len(self.offsets) // OFFSET_ENTRY_SIZE - number_of_entry(self.offsets, position)
        at = len(self.digests) - later * _DIGEST.size
        return int(_DIGEST.unpack_from(self.digests, at)[0]) if at >= 0 else None

    def truncate(self, position: int, next_offset: int) -> None:
        """Remove the batches from `position` on, which begin with `next_offset`; aborted transactions stay."""
        while self.offsets and batch_start_before(self.offsets, _ANYWHERE) >= position:
            del self.offsets[-OFFSET_ENTRY_SIZE:]
            del self.digests[-_DIGEST.size :]
        while self.times and last_time_offset(self.times) >= next_offset - self.base_offset:
            del self.times[-TIME_ENTRY_SIZE:]
        self.last_timestamp = last_timestamp(self.times)
        self.bytes_since_entry = position - batch_start_before(self.offsets, position)

    @staticmethod
    def restored(
        base_offset: int, interval_bytes: int, size: int, offsets: bytes, times: bytes, aborted: bytes
    ) -> GrowingTables | None:
        """Tables read back from their files, to continue; None where the files cannot be tables at all."""
        if len(offsets) % OFFSET_ENTRY_SIZE or len(times) % TIME_ENTRY_SIZE or len(aborted) % ABORTED_ENTRY_SIZE:
            return None
        tables = GrowingTables(base_offset, interval_bytes)
        tables.offsets += offsets
        tables.times += times
        tables.aborted += decode_aborted(aborted)
        tables.last_timestamp = last_timestamp(times)
        tables.bytes_since_entry = size - batch_start_before(offsets, size)
        return tables

    def checksums(self) -> TableChecksums:
        return TableChecksums(
            offset_index=crc32c(self.offsets),
            time_index=crc32c(self.times),
            aborted_index=crc32c(encode_aborted(self.aborted)),
        )

    def write(self, files: Files, directory: str) -> None:
        """Write the files, not durably."""
        for suffix, content in (
            (file_names.OFFSET_INDEX, bytes(self.offsets)),
            (file_names.TIME_INDEX, bytes(self.times)),
            (file_names.ABORTED_INDEX, encode_aborted(self.aborted)),
        ):
            path = file_names.segment_file(directory, self.base_offset, suffix)
            if content or suffix != file_names.ABORTED_INDEX:
                write_volatile(files, path, content)
            else:
                files.remove(path)  # A leftover file must not be taken for this segment's.


class OpenTables(NamedTuple):
    """A sealed segment's tables, open and verified against the sidecar."""

    offsets: File
    offsets_size: int
    times: File
    times_size: int
    aborted: list[AbortedTransaction]

    def are_offsets_resident(self) -> bool:
        return self.offsets.is_resident(0, self.offsets_size)

    def are_times_resident(self) -> bool:
        return self.times.is_resident(0, self.times_size)

    def read_offsets(self) -> Buffer:
        """A copy of the table, safe to read in a worker; the file is in memory afterwards."""
        return self.offsets.read(0, self.offsets_size)

    def read_times(self) -> Buffer:
        return self.times.read(0, self.times_size)

    def close(self) -> None:
        self.offsets.close()
        self.times.close()


class SealedTables:
    """The tables of a sealed segment: views of their files, once these are open."""

    __slots__ = ("_directory", "_files", "_held", "base_offset", "checksums", "is_checked")

    def __init__(self, files: Files, directory: str, base_offset: int, checksums: TableChecksums) -> None:
        self._files = files
        self._directory = directory
        self.base_offset = base_offset
        self.checksums = checksums
        self._held: OpenTables | None = None
        self.is_checked = False
        """Whether the files are open and verified; they stay so, whatever happens to their names."""

    def open(self) -> OpenTables | None:
        """Open the files and verify their checksums; None where they are not what was sealed.

        Reads the files, so it belongs in a worker. It changes nothing here: pass the result to `hold`, or close it.
        """
        offsets = self._matching(file_names.OFFSET_INDEX, self.checksums.offset_index)
        times = self._matching(file_names.TIME_INDEX, self.checksums.time_index)
        aborted = read_whole(self._files, self._path(file_names.ABORTED_INDEX)) or b""
        if offsets is not None and times is not None and crc32c(aborted) == self.checksums.aborted_index:
            return OpenTables(offsets, offsets.size(), times, times.size(), decode_aborted(aborted))
        for file in (offsets, times):
            if file is not None:
                file.close()
        return None

    def _matching(self, suffix: str, checksum: int) -> File | None:
        path = self._path(suffix)
        if not self._files.exists(path):
            return None
        file = self._files.open(path)
        if crc32c(file.read(0, file.size())) == checksum:
            return file
        file.close()
        return None

    def hold(self, opened: OpenTables) -> None:
        """Install what `open` returned; tables that are open already stay, and `opened` is closed."""
        if self._held is None:
            self._held = opened
            self.is_checked = True
        else:
            opened.close()

    def check(self) -> bool:
        """`open` and `hold` in one step, for callers that may wait for the disk; False where the tables are lost."""
        if not self.is_checked and (opened := self.open()) is not None:
            self.hold(opened)
        return self.is_checked

    def _path(self, suffix: str) -> str:
        return file_names.segment_file(self._directory, self.base_offset, suffix)

    @property
    def held(self) -> OpenTables | None:
        return self._held

    def are_offsets_resident(self) -> bool:
        """Whether looking up an offset would not wait for the disk."""
        return self._held is not None and self._held.are_offsets_resident()

    def are_all_resident(self) -> bool:
        """Whether looking up an offset or a timestamp would not wait for the disk."""
        return self._held is not None and self._held.are_offsets_resident() and self._held.are_times_resident()

    @property
    def offsets(self) -> Buffer:
        held = self._held
        assert held is not None, "check first"
        return held.offsets.view(held.offsets_size)

    @property
    def times(self) -> Buffer:
        assert self._held is not None, "check first"
        return self._held.times.view(self._held.times_size)

    @property
    def aborted(self) -> list[AbortedTransaction]:
        assert self._held is not None, "check first"
        return self._held.aborted

    def close(self) -> None:
        if self._held is not None:
            self._held.close()
        self._held = None
        self.is_checked = False

"""A segment's look-up tables: in memory while the segment grows, in files once it is sealed.

The files can be lost or torn in a crash without harm: their checksums stand in
the sidecar, `check` compares them once, and a segment whose tables are gone is
replayed (`replay.rebuild_tables`).
"""

from __future__ import annotations

from qanat.log import names
from qanat.log.aborted import ENTRY_SIZE as ABORTED_ENTRY_SIZE
from qanat.log.aborted import AbortedTransaction, decode_aborted, encode_aborted
from qanat.log.files import Buffer, File, Files
from qanat.log.indexes import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    add_offset_entry,
    add_time_entry,
    batch_start_before,
    last_timestamp,
)
from qanat.log.sidecar import TableChecksums
from qanat.log.whole_files import read_whole, write_volatile
from qanat.wire.crc import crc32c


class GrowingTables:
    """The tables of a segment that is written: plain buffers."""

    __slots__ = ("aborted", "base_offset", "bytes_since_entry", "interval_bytes", "last_timestamp", "offsets", "times")

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.base_offset = base_offset
        self.interval_bytes = interval_bytes
        self.bytes_since_entry = 0
        self.last_timestamp = -1
        self.offsets = bytearray()
        self.times = bytearray()
        self.aborted: list[AbortedTransaction] = []

    @property
    def is_checked(self) -> bool:
        """Tables in memory are as good as the process."""
        return True

    def check(self) -> bool:
        return True

    def enter(self, position: int, size: int, last_offset: int, max_timestamp: int, max_timestamp_offset: int) -> None:
        """Take in the batch at `position`; an entry is made every `interval_bytes`."""
        if self.bytes_since_entry > self.interval_bytes:
            self.offsets += add_offset_entry(last_offset - self.base_offset, position)
            if max_timestamp > self.last_timestamp:
                self.enter_timestamp(max_timestamp, max_timestamp_offset)
            self.bytes_since_entry = 0
        self.bytes_since_entry += size

    def enter_timestamp(self, timestamp: int, offset: int) -> None:
        """Enter the newest timestamp so far and the batch that brought it."""
        if timestamp > self.last_timestamp:
            self.times += add_time_entry(timestamp, offset - self.base_offset)
            self.last_timestamp = timestamp

    @staticmethod
    def restored(
        base_offset: int, interval_bytes: int, size: int, offsets: bytes, times: bytes, aborted: bytes
    ) -> GrowingTables | None:
        """Tables read back from their files, to grow on; None where these cannot be tables at all."""
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
            (names.OFFSET_INDEX, bytes(self.offsets)),
            (names.TIME_INDEX, bytes(self.times)),
            (names.ABORTED_INDEX, encode_aborted(self.aborted)),
        ):
            path = names.segment_file(directory, self.base_offset, suffix)
            if content or suffix != names.ABORTED_INDEX:
                write_volatile(files, path, content)
            else:
                files.remove(path)  # Somebody else's must not be taken for ours.


class SealedTables:
    """The tables of a sealed segment: views of their files, opened when first asked for."""

    __slots__ = (
        "_aborted",
        "_directory",
        "_files",
        "_offsets",
        "_offsets_size",
        "_times",
        "base_offset",
        "checksums",
        "is_checked",
    )

    def __init__(self, files: Files, directory: str, base_offset: int, checksums: TableChecksums) -> None:
        self._files = files
        self._directory = directory
        self.base_offset = base_offset
        self.checksums = checksums
        self.is_checked = False
        self._offsets: File | None = None
        self._offsets_size = 0
        self._times: File | None = None
        self._aborted: list[AbortedTransaction] = []

    def check(self) -> bool:
        """Whether the files are what was sealed. Says so once and remembers."""
        if not self.is_checked:
            expected = self.checksums
            self.is_checked = (
                # An empty table has a file too, which must be there to be opened.
                all(self._files.exists(self._path(suffix)) for suffix in (names.OFFSET_INDEX, names.TIME_INDEX))
                and crc32c(self._content(names.OFFSET_INDEX)) == expected.offset_index
                and crc32c(self._content(names.TIME_INDEX)) == expected.time_index
                and crc32c(self._content(names.ABORTED_INDEX)) == expected.aborted_index
            )
        return self.is_checked

    def _path(self, suffix: str) -> str:
        return names.segment_file(self._directory, self.base_offset, suffix)

    def _content(self, suffix: str) -> bytes:
        return read_whole(self._files, self._path(suffix)) or b""

    def hold(self) -> None:
        """Open what is opened lazily otherwise: the names may go away under us."""
        if self._offsets is None or self._times is None:
            self._offsets = self._files.open(self._path(names.OFFSET_INDEX))
            self._offsets_size = self._offsets.size()  # Asked once: the file never changes, and every look-up is here.
            self._times = self._files.open(self._path(names.TIME_INDEX))
            self._aborted = decode_aborted(self._content(names.ABORTED_INDEX))

    def is_resident(self) -> bool:
        """Whether looking something up would not wait for the disk."""
        self.hold()
        return all(file is not None and file.is_resident(0, file.size()) for file in (self._offsets, self._times))

    def warm(self) -> None:
        """Bring the files into memory (on a worker)."""
        self.hold()
        for file in (self._offsets, self._times):
            if file is not None:
                file.read(0, file.size())

    @property
    def offsets(self) -> Buffer:
        if self._offsets is None:
            self.hold()
            assert self._offsets is not None
        return self._offsets.view(self._offsets_size)

    @property
    def times(self) -> Buffer:
        self.hold()
        assert self._times is not None
        return self._times.view(self._times.size())

    @property
    def aborted(self) -> list[AbortedTransaction]:
        self.hold()
        return self._aborted

    def close(self) -> None:
        for file in (self._offsets, self._times):
            if file is not None:
                file.close()
        self._offsets = self._times = None

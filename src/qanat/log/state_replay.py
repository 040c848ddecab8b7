"""State replay: producers, aborted transactions and look-up tables, rebuilt from the batches alone.

The files with this state may be missing or wrong; walking the log again gives the
same result. Producer snapshots shorten the walk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import copy

from qanat.log.atomic_files import read_whole
from qanat.log.files import Files
from qanat.log.leader_epochs import EpochStart
from qanat.log.producer_snapshots import decode_snapshot
from qanat.log.producers import Producers
from qanat.log.segments import file_names
from qanat.log.segments.batch_scan import Damage, damage_at, read_batches
from qanat.log.segments.header_digest import digest_of
from qanat.log.segments.index_tables import GrowingTables, OpenTables, SealedTables
from qanat.log.segments.segment import Segment
from qanat.log.segments.sidecar import Sidecar
from qanat.model.errors import DiskFullError
from qanat.wire.batch_header import BatchHeader


def load_producers(
    segments: Sequence[Segment],
    offset: int,
    high_watermark: int | None = None,
    *,
    is_in_worker: bool = False,
    snapshots: Sequence[int] | None = None,
) -> Producers:
    """Producer state just before `offset`, a segment's base or the end of the last one.

    Starts from the newest sound snapshot at or before `offset` and replays from there. Aborted
    transactions of unsealed segments are entered in their tables, so a
    snapshot inside such a segment is not used. Transactions that ended after the high watermark
    are not decided for consumers, which a snapshot does not show: they are replayed as well.

    `is_in_worker`: in a worker, while the owner takes views of the last segment. `snapshots`: the offsets of the
    snapshots in the folder, where the caller has listed it.
    """
    unsealed_from = next((segment.base_offset for segment in segments if not segment.is_sealed), offset)
    up_to = min(offset, unsealed_from, offset if high_watermark is None else high_watermark)
    files, directory = segments[0].files, segments[0].directory
    if snapshots is None:
        snapshots = _snapshots(files, directory)
    start, producers = _latest_snapshot(files, directory, snapshots, up_to)
    for segment in segments:
        if segment.next_offset > start and segment.base_offset < offset:
            replay_segment(segment, producers, start, is_in_worker=is_in_worker)
    return producers


def walk(segment: Segment, *, is_in_worker: bool = False) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and bytes of a segment's sound batches; new damage is entered in the segment.

    A sealed segment was opened without reading: it is read here through a buffer, and its checksums are verified. So is
    one that is walked in a worker.
    """
    if not segment.is_sealed and not is_in_worker:
        view = segment.view()
        for position, header in segment.batches():
            yield position, header, view[position : position + header.size]
        return
    yield from walk_sealed(segment, 0)


def walk_sealed(segment: Segment, position: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """`walk` from the batch at `position` on, read through a buffer."""
    first_offset, end_offset = segment.base_offset, segment.next_offset
    while position < segment.size:
        stop = min((one.start for one in segment.damage if one.start >= position), default=segment.size)
        for at, header, batch in read_batches(segment.file, position, stop, first_offset, end_offset):
            position, first_offset = at + header.size, header.next_offset
            yield at, header, batch
        if position < segment.size:
            damage = segment.damage_at(position)
            if damage is None:
                # From the start, because only there the next offset is certain.
                segment.note_damage(segment.find_damage())
                damage = segment.damage_at(position)
            if damage is None:
                damage = damage_at(segment.file, position, segment.size, first_offset, end_offset, end_offset)
                segment.note_damage([damage])
            position, first_offset = damage.end, damage.next_offset


def _snapshots(files: Files, directory: str) -> list[int]:
    return file_names.offsets_by_suffix(files.list(directory)).get(file_names.SNAPSHOT, [])


def _latest_snapshot(files: Files, directory: str, offsets: Sequence[int], up_to: int) -> tuple[int, Producers]:
    for offset in sorted(offsets, reverse=True):
        if offset <= up_to:
            producers = decode_snapshot(
                read_whole(files, file_names.segment_file(directory, offset, file_names.SNAPSHOT)) or b""
            )
            if producers is not None:
                return offset, producers
    return 0, Producers()


def remove_snapshots(
    files: Files, directory: str, keep_from: int = 0, keep_to: int = 2**63, snapshots: Sequence[int] | None = None
) -> bool:
    """Remove producer snapshots outside the given offsets, not durably; returns whether there were any.

    `snapshots`: the offsets of all in the folder, where the caller has listed it.
    """
    if snapshots is None:
        snapshots = _snapshots(files, directory)
    needless = [offset for offset in snapshots if not keep_from <= offset <= keep_to]
    for offset in needless:
        files.remove(file_names.segment_file(directory, offset, file_names.SNAPSHOT))
    return bool(needless)


def replay_segment(
    segment: Segment, producers: Producers, first_offset: int = 0, *, is_in_worker: bool = False
) -> None:
    """Apply a segment's batches from `first_offset` on.

    Where the segment is not sealed, its aborted transactions are entered in its tables.
    """
    for _, header, batch in walk(segment, is_in_worker=is_in_worker):
        if header.last_offset >= first_offset:
            _replay(header, batch, producers, segment)


def _replay(header: BatchHeader, batch: memoryview, producers: Producers, segment: Segment) -> None:
    if header.producer_id < 0:
        return
    completed = producers.replay(header, batch, header.max_timestamp)
    if completed is not None and completed.is_aborted and isinstance(segment.tables, GrowingTables):
        segment.tables.aborted.append(completed.as_aborted())


class RebuildJob:
    """Walks the last of some sealed segments again, and rewrites its tables and its sidecar.

    No other job may change these segments' files meanwhile. Where there is no room for the tables, they stay
    in memory.
    """

    def __init__(self, segments: Sequence[Segment], interval_bytes: int, epochs: Sequence[EpochStart] = ()) -> None:
        self._segments = segments
        self._epochs = epochs
        # Damage on the way is entered in copies: the segments belong to the owner's thread.
        self._walked = [copy(segment) for segment in segments]
        self._rebuilt = Segment(
            segments[-1].files, segments[-1].directory, segments[-1].base_offset, segments[-1].file, interval_bytes
        )
        self._sealed: tuple[Sidecar, OpenTables] | None = None
        self.is_writing = False
        """Whether it has begun to write: from there on a disk error is final."""
        self.damage: tuple[Damage, ...] = ()

    def run(self) -> None:
        source, rebuilt = self._walked[-1], self._rebuilt
        if source.headers is not None and digest_of(source.file, source.size) != source.headers.digest:
            # Before the batches are trusted: the new sidecar must not vouch for changed headers.
            source.note_damage(source.find_damage(self._epochs))
        producers = load_producers(self._walked, source.base_offset)
        for position, header, batch in walk(source):
            rebuilt.enter_header(position, header)
            _replay(header, batch, producers, rebuilt)
        rebuilt.size, rebuilt.next_offset, rebuilt.damage = source.size, source.next_offset, source.damage
        sidecar = rebuilt.describe()
        self.is_writing = True
        with suppress(DiskFullError):
            rebuilt.write_seal(sidecar)
            tables = SealedTables(source.files, source.directory, source.base_offset, sidecar.checksums)
            if (opened := tables.open()) is not None:
                self._sealed = sidecar, opened

    def finish(self) -> None:
        for segment, walked in zip(self._segments, self._walked, strict=True):
            self.damage += segment.note_damage(walked.damage)
        segment = self._segments[-1]
        if self._sealed is None:
            segment.keep_in_memory(self._rebuilt.tables)
            return
        sidecar, opened = self._sealed
        segment.become_sealed(sidecar)
        assert isinstance(segment.tables, SealedTables), "just sealed"
        segment.tables.hold(opened)

"""State that follows from the batches alone: producers, aborted transactions, look-up tables.

Whatever file held it may be missing or wrong; walking the log again gives the
same answer. Producer snapshots shorten the walk.
"""

from __future__ import annotations

from collections.abc import Sequence

from qanat.log import names
from qanat.log.files import Files
from qanat.log.producers import Producers
from qanat.log.scan import find_damage
from qanat.log.segment import Segment
from qanat.log.snapshots import decode_snapshot
from qanat.log.tables import GrowingTables
from qanat.log.whole_files import read_whole


def load_producers(segments: Sequence[Segment], offset: int, high_watermark: int | None = None) -> Producers:
    """Producer state just before `offset`, a segment's base or the end of the last one.

    Starts from the newest sound snapshot at or before `offset` and replays from there. Aborted
    transactions of segments that are not sealed are entered in their tables on the way, so a
    snapshot inside such a segment is not used. Transactions that ended after the high watermark
    are not decided for consumers, which a snapshot does not say: they are replayed as well.
    """
    unsealed_from = next((segment.base_offset for segment in segments if not segment.is_sealed), offset)
    up_to = min(offset, unsealed_from, offset if high_watermark is None else high_watermark)
    start, producers = _latest_snapshot(segments[0].files, segments[0].directory, up_to)
    for segment in segments:
        if segment.next_offset > start and segment.base_offset < offset:
            replay_segment(compared(segment), producers, start)
    return producers


def compared(segment: Segment) -> Segment:
    """The segment, fit to be walked. A sealed one is opened unseen: here its checksums are compared."""
    if segment.is_sealed and not segment.damage:
        found = find_damage(segment.file, 0, segment.size, segment.base_offset, segment.next_offset)
        segment.damage = tuple(found)
    return segment


def _latest_snapshot(files: Files, directory: str, up_to: int) -> tuple[int, Producers]:
    offsets = [
        offset for name in files.list(directory) if (offset := names.offset_of(name, names.SNAPSHOT)) is not None
    ]
    for offset in sorted(offsets, reverse=True):
        if offset <= up_to:
            producers = decode_snapshot(read_whole(files, names.segment_file(directory, offset, names.SNAPSHOT)) or b"")
            if producers is not None:
                return offset, producers
    return 0, Producers()


def remove_snapshots(files: Files, directory: str, keep_from: int = 0, keep_to: int = 2**63) -> None:
    """Remove producer snapshots outside the given offsets."""
    for name in files.list(directory):
        offset = names.offset_of(name, names.SNAPSHOT)
        if offset is not None and not keep_from <= offset <= keep_to:
            files.remove(f"{directory}/{name}")


def replay_segment(segment: Segment, producers: Producers, first_offset: int = 0) -> None:
    """Take a segment's batches from `first_offset` on into account.

    Where the segment is not sealed, its aborted transactions are entered in its tables.
    """
    view = segment.view()
    for position, header in segment.batches():
        if header.producer_id < 0 or header.last_offset < first_offset:
            continue
        completed = producers.replay(header, view[position : position + header.size], header.max_timestamp)
        if completed is not None and completed.is_aborted and isinstance(segment.tables, GrowingTables):
            segment.tables.aborted.append(completed.as_aborted())


def rebuild_tables(segments: Sequence[Segment], index: int, interval_bytes: int) -> None:
    """Walk a sealed segment again, write its tables and its sidecar anew."""
    segment = segments[index]
    producers = load_producers(segments[: index + 1], segment.base_offset)
    walked = Segment(segment.files, segment.directory, segment.base_offset, segment.file, interval_bytes)
    for position, header in compared(segment).batches():
        walked.enter(position, header.size, header.last_offset, header.newest_timestamp)
    walked.size, walked.next_offset, walked.damage = segment.size, segment.next_offset, segment.damage
    replay_segment(walked, producers)
    sidecar = walked.describe()
    walked.write_seal(sidecar)
    segment.become_sealed(sidecar)

"""Active segment recovery: the sound batches of segments that were not sealed.

Unsound bytes at the end of what was being written are a torn tail: no client was promised them. Unsound bytes
below the recovery point are damage: they stay, and their offsets are not assigned again. So does a batch
that does not continue the log: a checksum does not cover a batch's offset.

Up to the recovery point a checkpoint holds the header digest (`header_digest.HeaderPoint`). Beyond it, and where
that checkpoint is lost, the batches must do: one that leaves a hole counts if the next one continues after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from qanat.log.leader_epochs import EpochStart
from qanat.log.segments.batch_scan import ANY_OFFSET, Damage, damage_at, misplaced, read_batches
from qanat.log.segments.header_digest import HeaderPoint
from qanat.log.segments.segment import Segment
from qanat.log.segments.verification import find_segment_damage
from qanat.wire.batch_header import HEADER_SIZE, MAGIC, BatchHeader, read_header

NO_EPOCH = -1
_REACH_MAX = 2**31
"""A segment's tables count offsets from its first in 31 bits: no segment holds more."""


def recover_segment(
    segment: Segment,
    *,
    torn_from: int | None,
    next_offset: int | None,
    is_dense: bool,
    point: HeaderPoint | None = None,
    epochs: Sequence[EpochStart] = (),
) -> bool:
    """Enter a segment's sound batches; False where its bytes end in a torn tail, which the caller truncates at `size`.

    From offset `torn_from` on unsound bytes are a torn tail, nowhere for None. `next_offset` is the start of the
    following segment. `is_dense` says that batches follow each other without holes, by the topic's settings. `point`
    is the header digest of the beginning of this segment, `epochs` the leader epochs of the log.
    """
    length = segment.file.size()
    if point is not None and not (point.size <= length and _enter_known(segment, point)):
        _enter_around_damage(segment, point, length, epochs)
    end_offset = segment.base_offset + _REACH_MAX if next_offset is None else next_offset
    while True:
        _enter_sound(segment, length, end_offset, is_dense=is_dense)
        if segment.size >= length:
            return True
        if torn_from is not None and not _is_below(torn_from, segment, length, next_offset):
            return False
        lost_to = next_offset if next_offset is not None else torn_from
        assert lost_to is not None, "only the last segment has no successor, and it may be torn"
        _pass_over(segment, _damage(segment, length, lost_to, end_offset, is_dense=is_dense))


def _enter_known(segment: Segment, point: HeaderPoint) -> bool:
    """Enter the batches up to `point`; False where they are not those that were written."""
    for position, header, _ in read_batches(segment.file, 0, point.size, segment.base_offset, point.next_offset):
        _enter(segment, position, header)
    return segment.size == point.size and segment.digest == point.headers.digest


def _enter_around_damage(segment: Segment, point: HeaderPoint, length: int, epochs: Sequence[EpochStart]) -> None:
    """Find the damage below a point, and enter the rest."""
    segment.reset()
    end = min(length, point.size)
    found = find_segment_damage(
        segment.file, end, segment.base_offset, point.next_offset, point.headers if end == point.size else None, epochs
    )
    for damage in found:
        _enter_between(segment, damage.start)
        _pass_over(segment, damage)
    _enter_between(segment, end)
    if end < point.size and segment.next_offset < point.next_offset:
        reason = f"{point.size - end} bytes of the file are gone"
        _pass_over(segment, Damage(end, end, segment.next_offset, point.next_offset, reason))


def _enter_between(segment: Segment, end: int) -> None:
    for position, header, _ in read_batches(segment.file, segment.size, end, ANY_OFFSET):
        _enter(segment, position, header)


def _enter(segment: Segment, position: int, header: BatchHeader) -> None:
    segment.enter_header(position, header)
    if segment.first_append_ms is None and header.max_timestamp >= 0:
        segment.first_append_ms = header.max_timestamp


def _pass_over(segment: Segment, damage: Damage) -> None:
    segment.damage = (*segment.damage, damage)
    segment.size, segment.next_offset = damage.end, damage.next_offset


def _enter_sound(segment: Segment, length: int, end_offset: int, *, is_dense: bool) -> None:
    """Enter batches up to the first that is not sound, or that does not continue the log.

    A batch is entered once the next one is seen: leader epochs ascend, so one that stands out is not what was written.
    """
    waiting: tuple[int, BatchHeader] | None = None
    epoch = NO_EPOCH
    for position, header, _ in read_batches(segment.file, segment.size, length, segment.next_offset, end_offset):
        if waiting is not None:
            epoch = _enter_in_epoch(segment, *waiting, epoch, header.leader_epoch)
            waiting = None
        if header.base_offset != segment.next_offset and not _is_hole(segment, position, header, length, is_dense):
            return
        waiting = position, header
    if waiting is not None:
        _enter_in_epoch(segment, *waiting, epoch, waiting[1].leader_epoch)


def _enter_in_epoch(segment: Segment, position: int, header: BatchHeader, before: int, after: int) -> int:
    """Enter a batch between others of these leader epochs, or skip it as damage; returns the epoch reached."""
    found = header.leader_epoch
    if found < before or before <= after < found != before:
        reason = f"leader epoch {found} between {before} and {after}"
        end = position + header.size
        _pass_over(segment, Damage(position, end, header.base_offset, header.next_offset, reason))
        return before
    _enter(segment, position, header)
    return found


def _is_hole(segment: Segment, position: int, header: BatchHeader, length: int, is_dense: bool) -> bool:
    """Whether a batch that starts further on than expected is where it was written, with nothing before it.

    Compaction leaves such holes, and a topic may have been compacted before. The next batch decides: one whose offset
    has changed is followed by one that continues where it should have been.
    """
    following = position + header.size
    if length - following < HEADER_SIZE:
        return not is_dense
    after = read_header(segment.file.read(following, HEADER_SIZE))
    if after.magic != MAGIC:
        return not is_dense
    return after.base_offset == header.next_offset if is_dense else after.base_offset >= header.next_offset


def _damage(segment: Segment, length: int, lost_to: int, end_offset: int, *, is_dense: bool) -> Damage:
    """The damage after the batches that were entered."""
    position, expected = segment.size, segment.next_offset
    sound = next(read_batches(segment.file, position, length, ANY_OFFSET), None)
    if is_dense and sound is not None:
        one = misplaced(position, sound[1], expected)
        return one._replace(next_offset=min(one.next_offset, end_offset))
    return damage_at(segment.file, position, length, expected, lost_to, end_offset)


def _is_below(recovery_point: int, segment: Segment, length: int, next_offset: int | None) -> bool:
    """Whether the bytes after the batches that were entered are below the recovery point.

    A recovery point beyond the last segment was not written for this log.
    """
    if segment.next_offset >= recovery_point:
        return False
    return next_offset is not None or recovery_point <= _reach(segment, length)


def _reach(segment: Segment, length: int) -> int:
    """How far the records of the last segment can reach at most.

    A record takes a byte, unless it is compressed; then the headers decide, as far as they look like headers.
    """
    position, reached = segment.size, segment.next_offset
    while length - position >= HEADER_SIZE:
        header = read_header(segment.file.read(position, HEADER_SIZE))
        if header.magic != MAGIC or header.base_offset != reached or header.size < HEADER_SIZE:
            break
        position, reached = position + header.size, max(header.next_offset, reached)
    return max(segment.base_offset + length, reached + max(length - position, 0))

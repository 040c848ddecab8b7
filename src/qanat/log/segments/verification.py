"""Segment verification: bytes against checksums, offsets and leader epochs against the header digest.

Where the digest does not match, the verification looks for the wrong header:

- In a dense segment each base offset follows from the batches before it, whose lengths in offsets are checksummed.
- A leader epoch is compared with the list of epochs (`leader_epochs`).

A finding counts if the corrected values restore the digest. The list of epochs has no checksum: where the
digest matches, the list is wrong, not the batches. Where nothing restores the digest, the whole segment is damage: in a
compacted segment nothing says which offset is wrong.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from qanat.log.leader_epochs import EpochStart
from qanat.log.segments.batch_scan import ANY_OFFSET, Damage, Readable, damage_at, find_damage, misplaced, read_batches
from qanat.log.segments.header_digest import EMPTY, HeaderDigest, extended
from qanat.model.ids import NO_LEADER_EPOCH
from qanat.wire.batch_header import BatchHeader


def listed_epoch(epochs: Sequence[EpochStart], header: BatchHeader, base_offset: int) -> int:
    """The leader epoch that a batch at `base_offset` should have; its own where the list does not say."""
    at = bisect_right(epochs, base_offset, key=_start_offset) - 1
    is_listed = at >= 0 and header.leader_epoch != NO_LEADER_EPOCH
    return epochs[at].epoch if is_listed else header.leader_epoch


def _start_offset(entry: EpochStart) -> int:
    return entry.start_offset


def find_segment_damage(
    file: Readable,
    size: int,
    base_offset: int,
    next_offset: int,
    headers: HeaderDigest | None = None,
    epochs: Sequence[EpochStart] = (),
) -> tuple[Damage, ...]:
    """All damage in the first `size` bytes of a segment, which end before `next_offset`."""
    if headers is None:
        return tuple(find_damage(file, 0, size, base_offset, next_offset, end_offset=next_offset))
    return _Look(file, size, base_offset, next_offset, headers, epochs).found()


class _Look:
    """One walk through a segment."""

    def __init__(
        self,
        file: Readable,
        size: int,
        base_offset: int,
        next_offset: int,
        headers: HeaderDigest,
        epochs: Sequence[EpochStart],
    ) -> None:
        self._file = file
        self._size = size
        self._base_offset = base_offset
        self._next_offset = next_offset
        self._headers = headers
        self._epochs = epochs
        self._expected = base_offset
        """Where the next batch starts, or the earliest offset where it may start."""
        self._digest = self._listed_digest = EMPTY
        """With the base offsets that are expected; the second also with the leader epochs of the list."""
        self._damage: list[Damage] = []
        self._other_epochs: list[Damage] = []
        """Batches that are damage if the list of epochs is right."""

    def found(self) -> tuple[Damage, ...]:
        position, are_all_read = 0, True
        while position < self._size:
            for at, header, _ in read_batches(self._file, position, self._size, ANY_OFFSET):
                if not self._take(at, header):
                    return self._everything()
                position = at + header.size
            if position < self._size:
                one = damage_at(self._file, position, self._size, self._expected, self._next_offset, self._next_offset)
                self._damage.append(one)
                position, self._expected, are_all_read = one.end, one.next_offset, False
        if not are_all_read or self._digest == self._headers.digest:
            return tuple(self._damage)
        if self._listed_digest == self._headers.digest:
            return merged(self._damage, self._other_epochs)
        return self._everything()

    def _take(self, position: int, header: BatchHeader) -> bool:
        """Enter a batch whose checksum matches; False where its offset is impossible and the right one is unknown."""
        base_offset = header.base_offset
        if self._headers.is_dense:
            if base_offset != self._expected:
                self._damage.append(misplaced(position, header, self._expected))
                base_offset = self._expected
        elif base_offset < self._expected or header.last_offset >= self._next_offset:
            return False
        self._expected = base_offset + header.last_offset_delta + 1
        epoch = listed_epoch(self._epochs, header, base_offset)
        if epoch != header.leader_epoch:
            reason = f"leader epoch {header.leader_epoch} in the batch at offset {base_offset}, written in {epoch}"
            self._other_epochs.append(Damage(position, position + header.size, base_offset, self._expected, reason))
        self._digest = extended(self._digest, base_offset, header.leader_epoch)
        self._listed_digest = extended(self._listed_digest, base_offset, epoch)
        return True

    def _everything(self) -> tuple[Damage, ...]:
        reason = "the offsets and leader epochs of its batches are not those that were written"
        return (Damage(0, self._size, self._base_offset, self._next_offset, reason),)


def merged(known: Sequence[Damage], found: Sequence[Damage]) -> tuple[Damage, ...]:
    """Both in order; of two that overlap, the one of `known` stays."""
    new = [one for one in found if all(one.start >= other.end or one.end <= other.start for other in known)]
    return tuple(sorted({*known, *new}))

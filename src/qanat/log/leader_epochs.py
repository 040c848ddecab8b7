"""Leader epochs: which leader wrote which offsets; truncation after a failover uses it.

One entry (epoch, start offset) per leader, both strictly ascending. Followers ask
for the end of an epoch and truncate what no leader of that epoch wrote (KIP-101, KIP-279).
Stored in `leader-epoch-checkpoint`, in Kafka's text format; rebuilt from the
batches where that file cannot be read.

Rule 1: an entry that contradicts a later one loses: assigning removes every
        entry with a later epoch, or with the same or a later start.
Rule 2: a leader's epoch is entered when it becomes leader, even if it never appends.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct

from qanat.model.ids import NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset

_VERSION = 0


class EpochStart(NamedTuple):
    """`epoch`'s first offset."""

    epoch: LeaderEpoch
    start_offset: Offset


class EpochEnd(Struct, frozen=True):
    """The largest epoch at or below the requested one, and the offset after its last record."""

    epoch: LeaderEpoch
    end_offset: Offset


UNKNOWN_EPOCH_END = EpochEnd(NO_LEADER_EPOCH, NO_OFFSET)


class LeaderEpochs:
    """The epochs of one log, oldest first."""

    __slots__ = ("_entries", "is_dirty", "latest")

    def __init__(self, entries: list[EpochStart] | None = None) -> None:
        self._entries = entries or []
        self.is_dirty = False
        self.latest = self._entries[-1].epoch if self._entries else NO_LEADER_EPOCH
        """The current epoch, which every append reads."""

    def __repr__(self) -> str:
        return f"LeaderEpochs({' '.join(f'{epoch}@{start}' for epoch, start in self._entries)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LeaderEpochs) and self._entries == other._entries

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(self._entries)

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Enter that `epoch` writes from `start_offset` on; a known epoch stays as it is."""
        if epoch < 0 or epoch == self.latest:
            return
        while self._entries and (self._entries[-1].epoch > epoch or self._entries[-1].start_offset >= start_offset):
            self._entries.pop()
        # An epoch that began earlier continues: the one above it was ours, and we wrote nothing in it.
        if not self._entries or self._entries[-1].epoch < epoch:
            self._entries.append(EpochStart(epoch, start_offset))
        self.latest = epoch
        self.is_dirty = True

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """The leader epoch that wrote `offset`."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset) - 1
        return self._entries[at].epoch if at >= 0 else NO_LEADER_EPOCH

    def end_of(self, epoch: LeaderEpoch, log_end_offset: Offset) -> EpochEnd:
        """Answer OffsetForLeaderEpoch: C03 and C04 of the corner cases."""
        if not self._entries or epoch > self.latest or epoch < 0:
            return UNKNOWN_EPOCH_END
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        after = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        floor = self._entries[after - 1].epoch if after else epoch
        return EpochEnd(floor, self._entries[after].start_offset)

    def truncate_end(self, end_offset: Offset) -> None:
        """Remove epochs that start at or after `end_offset`."""
        kept = [entry for entry in self._entries if entry.start_offset < end_offset]
        self._replace(kept)

    def truncate_start(self, start_offset: Offset) -> None:
        """Remove entries before the log's start; the epoch that spans it now starts there."""
        at = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset) - 1
        if at >= 0:
            self._replace([EpochStart(self._entries[at].epoch, start_offset), *self._entries[at + 1 :]])

    def _replace(self, entries: list[EpochStart]) -> None:
        if entries != self._entries:
            self._entries = entries
            self.latest = entries[-1].epoch if entries else NO_LEADER_EPOCH
            self.is_dirty = True

    def encode(self) -> bytes:
        """The checkpoint file's text."""
        lines = [str(_VERSION), str(len(self._entries)), *(f"{epoch} {start}" for epoch, start in self._entries)]
        return ("\n".join(lines) + "\n").encode()

    @staticmethod
    def decode(text: bytes) -> LeaderEpochs | None:
        """The file's content, or None where it is torn, empty or not ascending."""
        try:
            version, count, *lines = text.decode("ascii").splitlines()
            entries = [EpochStart(LeaderEpoch(int(e)), Offset(int(s))) for e, s in (line.split() for line in lines)]
        except ValueError:
            return None
        rising = all(a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in pairwise(entries))
        if version != str(_VERSION) or count != str(len(entries)) or not rising or not text.endswith(b"\n"):
            return None
        if any(not 0 <= entry.epoch < 2**31 or not 0 <= entry.start_offset < 2**63 for entry in entries):
            return None
        return LeaderEpochs(entries)

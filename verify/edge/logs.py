"""A model of a partition's log: batches with epochs and bytes, what is on disk, and the answer to a pipe."""

from __future__ import annotations

from typing import NamedTuple

from qanat.broker.replicas.fetch import Wanted, diverges
from qanat.edge.mirror import Answered, EpochEnd, Gap, epoch_to_compare
from qanat.log.leader_epochs import EpochEnd as LogEpochEnd
from qanat.log.leader_epochs import LeaderEpochs
from qanat.model.ids import LeaderEpoch, Offset


class ModelBatch(NamedTuple):
    """A batch, as it must be at every level."""

    base_offset: int
    next_offset: int
    epoch: int
    payload: bytes


class ModelLog:
    """One log. `flushed` is what survives a power loss, and the high watermark of a mirror."""

    def __init__(self) -> None:
        self.start = 0
        self.empty_end = 0
        """The end while there is no batch."""
        self.batches: list[ModelBatch] = []
        self.epochs = LeaderEpochs()
        self.flushed = 0

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.empty_end

    @property
    def last_epoch(self) -> int:
        return self.batches[-1].epoch if self.batches else -1

    def end_of_epoch(self, epoch: LeaderEpoch) -> LogEpochEnd:
        return self.epochs.end_of(epoch, Offset(self.end_offset))

    def append(self, batch: ModelBatch) -> None:
        assert batch.base_offset >= self.end_offset, "a batch is appended before the end"
        self.batches.append(batch)
        self.epochs.assign(LeaderEpoch(batch.epoch), Offset(batch.base_offset))

    def flush(self) -> None:
        self.flushed = self.end_offset

    def truncate(self, end: int) -> None:
        """Cut to `end`; a batch that spans it goes whole."""
        while self.batches and self.batches[-1].next_offset > end:
            self.empty_end = max(self.start, self.batches.pop().base_offset)
        self.epochs.truncate_end(Offset(self.end_offset))
        self.flushed = min(self.flushed, self.end_offset)

    def restart(self, offset: int) -> None:
        self.batches.clear()
        self.start = self.empty_end = self.flushed = offset
        self.epochs = LeaderEpochs()

    def retain_from(self, offset: int) -> None:
        """Retention: the batches before `offset` go."""
        kept = [batch for batch in self.batches if batch.next_offset > offset]
        if not kept:
            self.empty_end = self.end_offset
        self.batches = kept
        self.start = max(self.start, min(offset, self.end_offset))
        self.epochs.truncate_start(Offset(self.start))

    def answer(
        self, offset: int, epoch: int, most: int, high_watermark: int, gaps: tuple[Gap, ...]
    ) -> tuple[Answered, tuple[ModelBatch, ...]]:
        """What a parent answers, by the rules of Fetch."""
        epoch = epoch_to_compare(offset, epoch, gaps)
        at = _Readable(self)
        if diverges(Wanted(at, offset, 0, -1, epoch), at):  # type: ignore[arg-type]
            ends = self.end_of_epoch(LeaderEpoch(epoch))
            parted = EpochEnd(ends.epoch, ends.end_offset) if ends.epoch >= 0 else self._beginning(epoch)
            return Answered(self.start, high_watermark, parted, gaps), ()
        found: list[ModelBatch] = []
        for batch in self.batches:
            if (
                batch.next_offset > max(offset, self.start)
                and batch.next_offset <= high_watermark
                and len(found) < most
            ):
                found.append(batch)
        return Answered(self.start, high_watermark, None, gaps), tuple(found)

    def _beginning(self, epoch: int) -> EpochEnd:
        """The parent knows no epoch so early, or none so late."""
        latest = self.epochs.latest
        if epoch > latest >= 0:
            return EpochEnd(latest, self.end_offset)
        return EpochEnd(-1, self.start)


class _Readable:
    """A partition, as the divergence check of Fetch sees it."""

    def __init__(self, log: ModelLog) -> None:
        self.log = log

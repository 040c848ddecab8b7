"""One mirrored partition at the child: what to ask of the parent, and what to do with the answer.

The position is the log itself: its end, and the epoch of its last record. The parent answers with batches below its
high watermark, or with the end of that epoch where its log diverges. Where its log starts later than the position, the
batches are those from its start on.

Rule 1: nothing at or above the parent's high watermark is appended.
Rule 2: nothing is truncated before the parent has committed records of another epoch in its place. A parent that only
        lacks records is behind: the child waits, or asks another parent.
Rule 3: a gap is recorded before it is skipped, with its exact range. A hole that a parent reports in its own log is a
        gap of ours as well.
Rule 4: the past of a child is thrown away by `on.gap=refresh` alone.
Rule 5: a child begins where its parent's log begins, once. That it has begun at 0 is stored before the first answer is
        carried out: an empty log alone does not say whether records before the parent's start are lost.

docs/decisions/0020-mirrored-topics.md says why.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

NO_EPOCH = -1
STOPPED_RETRY_MS = 30_000
"""How often a stopped partition looks whether a parent has its range after all."""


class OnGap(Enum):
    """What a child does about records that its parent no longer has."""

    STOP = "stop"
    SKIP = "skip"
    REFRESH = "refresh"


class Gap(Struct, frozen=True, order=True):
    """Offsets that no parent had any more: from `first` up to `end`, exclusive."""

    first: int
    end: int


class EpochEnd(Struct, frozen=True):
    """The largest epoch at or below a named one, and where it ends. With epoch -1 there is none; of a parent, its log
    begins at `end_offset` with a later one."""

    epoch: int
    end_offset: int


class Position(Struct, frozen=True):
    """Where the child's log stands."""

    start: int
    end: int
    epoch: int = NO_EPOCH
    """The epoch of the last record; -1 where there is none."""
    has_begun: bool = False
    """Of a log that ends at 0: whether it is stored that it begins there."""


class Answered(Struct, frozen=True):
    """What the parent says of a partition."""

    log_start: int
    high_watermark: int
    diverging: EpochEnd | None = None
    gaps: tuple[Gap, ...] = ()
    """Holes of the parent's own log that it has recorded."""


class Batch(Struct, frozen=True):
    """The header of a batch that came."""

    base_offset: int
    next_offset: int
    epoch: int


class Append(Struct, frozen=True):
    """Append what came, after recording `gaps` and raising the partition's epoch to `epoch` at least."""

    count: int
    """How many of the batches."""
    epoch: int
    gaps: tuple[Gap, ...] = ()


class Truncate(Struct, frozen=True):
    """Truncate to `end_offset`, and ask again."""

    end_offset: int


class Begin(Struct, frozen=True):
    """Begin at an offset: the log has no record."""

    offset: int


class Skip(Struct, frozen=True):
    """Record the gap, then go on after it."""

    gap: Gap


class Refresh(Struct, frozen=True):
    """Record the gap, then empty the log and begin after the gap."""

    gap: Gap


class Stop(Struct, frozen=True):
    """Report the gap, and ask for nothing but what is missing: nothing is skipped."""

    gap: Gap


class Wait(Struct, frozen=True):
    """There is nothing to do. `is_behind` where the parent lacks records that we have."""

    is_behind: bool = False


Step = Append | Truncate | Begin | Skip | Refresh | Stop | Wait


def begins_at_zero(own: Position, answered: Answered, batches: tuple[Batch, ...]) -> bool:
    """Whether the child begins at offset 0 with this answer, which must be stored first (rule 5)."""
    return own.end == 0 and not own.has_begun and answered.diverging is None and _begin(answered, batches) == 0


def _begin(answered: Answered, batches: tuple[Batch, ...]) -> int:
    """Where the parent's records begin: a log may start in the middle of a batch, which comes whole."""
    return min(answered.log_start, batches[0].base_offset) if batches else answered.log_start


def next_step(
    own: Position, own_epoch_end: EpochEnd | None, answered: Answered, batches: tuple[Batch, ...], on_gap: OnGap
) -> Step:
    """What to do with an answer. `own_epoch_end` is what our log says of the diverging epoch, where there is one."""
    if answered.diverging is not None:
        assert own_epoch_end is not None, "a child whose log diverges looks up its own epochs"
        return _parted(own, own_epoch_end, answered.diverging, answered)
    begin = _begin(answered, batches)
    if own.end < begin and own.end < answered.log_start:
        if own.end == 0 and not own.has_begun:
            return Begin(begin)
        gap = Gap(own.end, begin)
        return Skip(gap) if on_gap is OnGap.SKIP else Refresh(gap) if on_gap is OnGap.REFRESH else Stop(gap)
    if own.end > answered.high_watermark:
        return Wait(is_behind=True)
    if batches and batches[0].base_offset < own.end < batches[0].next_offset <= answered.high_watermark:
        return _across(own, batches[0])
    fit = _fit(own, answered, batches)
    if not fit:
        return Wait()
    if fit[0].epoch < own.epoch:
        return Wait(is_behind=True)  # What it has there was replaced by what we have, and it does not know yet.
    end = fit[-1].next_offset
    gaps = tuple(gap for gap in answered.gaps if gap.end > own.end and gap.first < end)
    return Append(len(fit), max(one.epoch for one in fit), tuple(_cut(gap, own.end) for gap in gaps))


def epoch_to_compare(offset: int, epoch: int, gaps: tuple[Gap, ...]) -> int:
    """The epoch by which a parent compares logs. Where a child's last record lies in a gap of the parent, there is
    nothing to compare it with: the epochs of the batches that follow tell the child whose are later."""
    return NO_EPOCH if any(gap.first < offset <= gap.end for gap in gaps) else epoch


def _parted(own: Position, ours: EpochEnd, theirs: EpochEnd, answered: Answered) -> Step:
    if theirs.end_offset >= answered.high_watermark:
        return Wait(is_behind=True)  # Nothing is committed there that differs from ours.
    is_after_gap = any(gap.first < theirs.end_offset <= gap.end for gap in answered.gaps)
    if theirs.epoch < 0 or is_after_gap:
        agreed = theirs.end_offset  # Its log begins there, in a later epoch than ours: what is before, it cannot judge.
    elif ours.epoch < 0:
        agreed = own.start  # All that we have was written in later epochs than theirs.
    else:
        agreed = min(ours.end_offset, theirs.end_offset) if ours.epoch == theirs.epoch else ours.end_offset
    if agreed >= own.end:
        return Wait(is_behind=True)  # Nothing of ours is judged: there is nothing to cut.
    return Truncate(max(agreed, own.start))


def _across(own: Position, theirs: Batch) -> Step:
    """A committed batch of the parent lies across our end. So our logs differ before it, at a place that the parent's
    epochs do not reach, since its log starts later: the larger epoch is of the later history."""
    if own.start == own.end:
        return Begin(theirs.base_offset)  # All of ours was cut off.
    if theirs.epoch <= own.epoch:
        return Wait(is_behind=True)
    return Truncate(max(theirs.base_offset, own.start))


def _fit(own: Position, answered: Answered, batches: tuple[Batch, ...]) -> tuple[Batch, ...]:
    """The batches that continue our log, in order, below the high watermark."""
    fit: list[Batch] = []
    end = own.end
    for batch in batches:
        if batch.base_offset < end or batch.next_offset > answered.high_watermark:
            break
        fit.append(batch)
        end = batch.next_offset
    return tuple(fit)


def _cut(gap: Gap, first: int) -> Gap:
    return gap if gap.first >= first else Gap(first, gap.end)


class GapLedger:
    """The recorded gaps of a partition, in order and joined; the shell stores them."""

    def __init__(self, gaps: tuple[Gap, ...] = ()) -> None:
        self.gaps = gaps

    def record(self, gap: Gap) -> bool:
        """Enter a gap; False where it is known, and need not be stored."""
        if any(known.first <= gap.first and gap.end <= known.end for known in self.gaps):
            return False
        joined: list[Gap] = []
        for one in sorted([*self.gaps, gap]):
            if joined and one.first <= joined[-1].end:
                joined[-1] = Gap(joined[-1].first, max(joined[-1].end, one.end))
            else:
                joined.append(one)
        self.gaps = tuple(joined)
        return True

    def truncate(self, log_end: int) -> bool:
        """Forget what lies beyond the end of the log: after a truncation, and at the start, where a crash may have come
        between recording a gap and skipping it. A log that began again inside a gap ends it there. False where nothing
        changes."""
        kept = tuple(Gap(gap.first, min(gap.end, log_end)) for gap in self.gaps if gap.first < log_end)
        is_changed, self.gaps = kept != self.gaps, kept
        return is_changed


# How a step is carried out: the shell does these acts in this order, and may crash between any two.


class RecordGap(Struct, frozen=True):
    """Store the gap, durably."""

    gap: Gap


class RaiseEpoch(Struct, frozen=True):
    """Store a state epoch of at least `epoch` for the partition."""

    epoch: int


class AppendBatches(Struct, frozen=True):
    """Append the first `count` batches as they came."""

    count: int


class GoOnAt(Struct, frozen=True):
    """Ask for what comes from `offset` on."""

    offset: int


class RestartAt(Struct, frozen=True):
    """Empty the log and begin at `offset`."""

    offset: int


class TruncateLog(Struct, frozen=True):
    """End the leadership, truncate, forget gaps beyond, lead again."""

    end_offset: int


class Report(Struct, frozen=True):
    """Show that the partition is stopped, and at which range."""

    gap: Gap


Act = RecordGap | RaiseEpoch | AppendBatches | GoOnAt | RestartAt | TruncateLog | Report


def acts(step: Step) -> tuple[Act, ...]:
    """The acts of a step, in their order (rule 3)."""
    match step:
        case Append():
            return (*map(RecordGap, step.gaps), RaiseEpoch(step.epoch), AppendBatches(step.count))
        case Skip():
            return (RecordGap(step.gap), GoOnAt(step.gap.end))
        case Refresh():
            return (RecordGap(step.gap), RestartAt(step.gap.end))
        case Begin():
            return (RestartAt(step.offset),)
        case Truncate():
            return (TruncateLog(step.end_offset),)
        case Stop():
            return (Report(step.gap),)
        case Wait():
            return ()

"""What a consumer application does with records that arrive: which are new, which it has, and which void others.

Its copy of a partition has the offsets and leader epochs of the broker's log, so a record is known by partition, offset
and epoch, and one that is delivered again is recognized without remembering deliveries.

Rule 1: of one partition, offset and epoch there is one record: the same again is skipped.
Rule 2: a record of a later epoch at an offset that is held voids what is held from there on: the broker's log was
        truncated since.
Rule 3: a record before everything that is held starts the copy afresh there: the group was set back, and the broker
        sends all that follows again.
Rule 4: a record of an earlier epoch than the one held at its offset is skipped: a former leader sent it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

NO_EPOCH = -1


class Extent(NamedTuple):
    """What a copy of a partition holds: offsets from `start` to `end` (exclusive), and where each epoch starts."""

    start: int
    end: int
    epochs: tuple[tuple[int, int], ...] = ()

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at an offset, as far as it is known."""
        return next((epoch for epoch, start in reversed(self.epochs) if start <= offset), NO_EPOCH)


class Place(NamedTuple):
    """Where an arriving record belongs."""

    offset: int
    epoch: int


class Restart(NamedTuple):
    """Empty the copy; it continues at an offset."""

    offset: int


class Truncate(NamedTuple):
    """Remove everything from an offset on."""

    offset: int


class Append(NamedTuple):
    """Append arrived records from `first` to `end` (exclusive), by their place among those that arrived."""

    first: int
    end: int


Step = Restart | Truncate | Append


def plan(held: Extent, arrived: Iterable[Place]) -> list[Step]:
    """The steps that make a copy hold the records that have arrived, in their order."""
    steps: list[Step] = []
    for number, place in enumerate(arrived):
        before = _before(held, place)
        if before is None:
            continue
        steps += before
        if not before and steps and isinstance(last := steps[-1], Append) and last.end == number:
            steps[-1] = Append(last.first, number + 1)
        else:
            steps.append(Append(number, number + 1))
        for step in before:
            held = removed(held, step)
        held = _appended(held, place)
    return steps


def _before(held: Extent, place: Place) -> Sequence[Restart | Truncate] | None:
    """What must happen before a record is appended; None where it is skipped."""
    offset, epoch = place
    if held.start == held.end:
        return () if offset == held.end else (Restart(offset),)
    if offset < held.start:
        return (Restart(offset),)
    if offset >= held.end:
        return ()
    is_later = epoch > held.epoch_at(offset) >= 0
    return (Truncate(offset),) if is_later else None


def removed(held: Extent, step: Restart | Truncate) -> Extent:
    """The extent after a removal."""
    if isinstance(step, Restart) or step.offset <= held.start:
        return Extent(step.offset, step.offset)
    end = min(step.offset, held.end)
    return Extent(held.start, end, tuple(entry for entry in held.epochs if entry[1] < end))


def _appended(held: Extent, place: Place) -> Extent:
    latest = held.epochs[-1][0] if held.epochs else NO_EPOCH
    epochs = (*held.epochs, (place.epoch, place.offset)) if place.epoch > latest else held.epochs
    start = place.offset if held.start == held.end else held.start
    return Extent(start, place.offset + 1, epochs)

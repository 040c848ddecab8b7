"""The ledger of refreshes: which steps a refresh takes, and which are refused. Pure.

RESET {start, captured end} -> ACK -> the records again -> READY -> ACK. Each step is written before the frame that
follows from it is sent, so that whatever broker serves the subscriber next knows how far its refresh is.

Rule 1: a partition's step counts for the attempt in which its subscriber was asked: one that has lost the partition to
        another changes nothing any more.
Rule 2: what is over stays over.
Rule 3: a step that is written twice does no harm: a write may have happened although it was reported as lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from qanat.model.push_refreshes import PartitionRefresh, PushRefresh, RefreshState

RESET_RETRY_MS, READY_RETRY_MS = 5_000, 10_000
GIVE_UP_MS = 600_000

_FROM = {
    RefreshState.REPLAYING: (RefreshState.RESETTING,),
    RefreshState.READYING: (RefreshState.REPLAYING,),
    RefreshState.DONE: (RefreshState.READYING,),
    RefreshState.GIVEN_UP: (RefreshState.RESETTING, RefreshState.READYING),
}


@dataclass(frozen=True, slots=True)
class Ask:
    """A subscriber has these partitions, and is to be sent RESET: the first one, or one after another.

    `reached` are the offset up to which it was sent records, and the epoch of the last one. The end of the replay is no
    earlier: the group's commit is never beyond it, so that no record is missed whichever generation goes on.
    """

    id: str
    reached: Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Move:
    """Partitions, each with the attempt of its subscriber, reach a state."""

    id: str
    state: RefreshState
    attempts: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Cancel:
    """An operator ends a refresh; what is done stays done."""

    id: str


Step = Ask | Move | Cancel


def begin(before: PushRefresh | None, wanted: PushRefresh) -> PushRefresh | None:
    """The entry of a new refresh; None while the one before it is not over."""
    return wanted if before is None or before.is_over else None


def decide(entry: PushRefresh | None, step: Step, now_ms: int) -> PushRefresh | None:
    """The entry after a step; None where the step is refused: another subscriber, or the end, was first."""
    if entry is None or entry.id != step.id:
        return None
    match step:
        case Ask(_, reached):
            return _each(entry, reached, lambda one: _asked(one, reached[one.partition], now_ms))
        case Move(_, state, attempts):
            return _each(entry, attempts, lambda one: _moved(one, state, attempts[one.partition], now_ms))
        case Cancel():
            left = [one.partition for one in entry.partitions if not one.state.is_over]
            return _each(entry, left, lambda one: replace(one, state=RefreshState.CANCELLED))


def _each(
    entry: PushRefresh, numbers: Iterable[int], change: Callable[[PartitionRefresh], PartitionRefresh | None]
) -> PushRefresh | None:
    """Change some partitions; None where one of them is not there, or refuses."""
    by_number = {one.partition: one for one in entry.partitions}
    for number in numbers:
        found = by_number.get(number)
        changed = None if found is None else change(found)
        if changed is None:
            return None
        by_number[number] = changed
    return replace(entry, partitions=tuple(by_number.values()))


def _asked(one: PartitionRefresh, reached: tuple[int, int], now_ms: int) -> PartitionRefresh | None:
    if one.state.is_over:
        return None
    since = one.asked_ms if one.state is RefreshState.RESETTING else now_ms
    end, epoch = max((one.end, one.end_epoch), reached, key=lambda place: place[0])
    return replace(one, end=end, end_epoch=epoch, state=RefreshState.RESETTING, attempt=one.attempt + 1, asked_ms=since)


def _moved(one: PartitionRefresh, state: RefreshState, attempt: int, now_ms: int) -> PartitionRefresh | None:
    if one.attempt != attempt:
        return None
    if one.state is state:
        return one
    if one.state not in _FROM[state]:
        return None
    return replace(one, state=state, asked_ms=now_ms)


def unfinished(entry: PushRefresh | None, numbers: Iterable[int]) -> tuple[PartitionRefresh, ...]:
    """Those of a subscriber's partitions of which the refresh is not over."""
    if entry is None:
        return ()
    wanted = set(numbers)
    return tuple(one for one in entry.partitions if one.partition in wanted and not one.state.is_over)

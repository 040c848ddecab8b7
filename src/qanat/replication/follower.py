"""The follower's view of one partition: what to do with its leader's response.

A follower fetches what comes after its own end and names the epoch of its last record. The leader sends what follows;
or it says where the two logs diverge, and the follower truncates there before it appends anything (KIP-595); or it says
that the offset is out of range, because its own log starts later.

Rule 1: a follower truncates only because the leader says so, in the epoch in which it leads: the fetcher drops a
        response to a request of another epoch.
Rule 2: where the leader names an epoch that the follower does not have, the follower truncates to its own epoch before
        that one, and the next response says more (C03).
"""

from __future__ import annotations

from msgspec import Struct

from qanat.model.error_codes import ErrorCode


class Epoch(Struct, frozen=True):
    """The largest epoch at or below a requested one, and where it ends; both are -1 where there is none."""

    epoch: int
    end_offset: int


class Append(Struct, frozen=True):
    """Append the records, if any came, and take the leader's high watermark and log start."""


class Truncate(Struct, frozen=True):
    """Truncate the log to `end_offset`."""

    end_offset: int


class StartAt(Struct, frozen=True):
    """Drop the whole log and start at `offset`: the leader has nothing before that."""

    offset: int


class Wait(Struct, frozen=True):
    """Fetch again later; `is_stale` where a newer metadata image will name another leader."""

    is_stale: bool


Step = Append | Truncate | StartAt | Wait

_STALE = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
)


def next_step(
    error: ErrorCode, diverging: Epoch | None, own: Epoch | None, leader_start: int, own_start: int, own_end: int
) -> Step:
    """The next step. `own` is our epoch at or below the diverging one; `leader_start` is the leader's log start."""
    if error is ErrorCode.OFFSET_OUT_OF_RANGE:
        # An empty log has no epoch by which the leader could say where to go back to.
        is_lost = leader_start > own_end or own_start == own_end
        return StartAt(leader_start) if is_lost else Wait(is_stale=False)
    if error is not ErrorCode.NONE:
        return Wait(is_stale=error in _STALE)
    if diverging is None:
        return Append()
    assert own is not None, "a follower that diverges has looked up its own epochs"
    if own.epoch < 0:
        return Truncate(0)
    if own.epoch == diverging.epoch:
        return Truncate(min(own.end_offset, diverging.end_offset))
    return Truncate(min(own.end_offset, own_end))

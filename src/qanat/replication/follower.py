"""One partition as a follower sees it: what to do with what its leader said.

A follower asks for what comes after its own end and names the epoch of its last record. The leader sends
what follows; or says where the two copies part, which is cut off before anything else is taken (KIP-595); or that the
offset is not there any more, because its own copy starts later.

Rule 1: nothing is cut for any other reason than the leader's word, given in the epoch in which it leads: an answer to
        a question of another epoch is dropped by whoever asked.
Rule 2: where the leader names an epoch that the follower has not, the cut goes back to the follower's own epoch before
        it, and the next answer tells more (C03).
"""

from __future__ import annotations

from msgspec import Struct

from qanat.model.error_codes import ErrorCode


class Epoch(Struct, frozen=True):
    """The largest epoch at or below one that was asked for, and where it ends; -1 twice where there is none."""

    epoch: int
    end_offset: int


class Take(Struct, frozen=True):
    """Append what came, if anything did; take over the leader's bounds."""


class Cut(Struct, frozen=True):
    """Let go of everything from `end_offset` on."""

    end_offset: int


class StartAt(Struct, frozen=True):
    """Throw the whole copy away and begin at `offset`: the leader has nothing before that."""

    offset: int


class Wait(Struct, frozen=True):
    """Ask again later; `is_stale` where a newer picture of the cluster will say whom."""

    is_stale: bool


Step = Take | Cut | StartAt | Wait

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
    """What to do. `own` is our epoch at or below the diverging one; `leader_start` where the leader's copy starts."""
    if error is ErrorCode.OFFSET_OUT_OF_RANGE:
        # A copy without records has no epoch by which the leader could tell it where to go back to.
        is_lost = leader_start > own_end or own_start == own_end
        return StartAt(leader_start) if is_lost else Wait(is_stale=False)
    if error is not ErrorCode.NONE:
        return Wait(is_stale=error in _STALE)
    if diverging is None:
        return Take()
    assert own is not None, "whoever hears of a divergence looks up its own epochs"
    if own.epoch < 0:
        return Cut(0)
    if own.epoch == diverging.epoch:
        return Cut(min(own.end_offset, diverging.end_offset))
    return Cut(min(own.end_offset, own_end))

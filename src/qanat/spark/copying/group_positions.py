"""Positions of groups at the target of a copy: their offsets at the source, translated by the map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from qanat.connection.committed import committed_offsets
from qanat.connection.faults import RefusedError
from qanat.model.ids import TopicPartition
from qanat.spark.copying.copy_target import CopyTarget
from qanat.spark.copying.ledger import Copy
from qanat.spark.offsets import Offsets

_MARKER = 1
"""The marker of a transaction has the offset after its records."""


def translated(copy_target: CopyTarget, stood: Offsets, copies: Mapping[str, Copy]) -> dict[TopicPartition, int]:
    """Old positions as new ones, without partitions of which nothing was copied."""
    found: dict[TopicPartition, int] = {}
    behind: dict[TopicPartition, int] = {}
    for at, offset in stood.items():
        copy = copies.get(at.topic)
        if copy is None:
            continue
        known = copy_target.ledger.map_of(copy, at.partition)
        new = known.translate(offset)
        if new is not None:
            place = TopicPartition(copy.topic, at.partition)
            found[place] = new
            if new == known.end:
                behind[place] = new
    # A group that has read everything skips the transaction's marker as well, so that no lag is left.
    ends = copy_target.lookups.latest(behind)
    return found | {place: end for place, end in ends.items() if end == behind[place] + _MARKER}


class Outcome(NamedTuple):
    """The outcome as text, and whether the broker refused the commit."""

    text: str
    is_refused: bool = False


def put(
    copy_target: CopyTarget, group: str, stood: Offsets, copies: Mapping[str, Copy], *, is_forward_only: bool
) -> Outcome:
    """Commit a group's positions at the source for the target."""
    wanted = translated(copy_target, stood, copies)
    if not wanted:
        return Outcome(f"group {group} has no positions in the copied topics")
    if is_forward_only:
        now = copy_target.lookups.run(
            lambda cluster, deadline: committed_offsets(cluster, group, deadline, only=wanted)
        )
        wanted = {at: offset for at, offset in wanted.items() if now.get(at, -1) < offset}
        if not wanted:
            return Outcome(f"group {group} is at its positions already")
    try:
        copy_target.lookups.commit(group, wanted)
    except RefusedError as fault:
        return Outcome(f"group {group} was not moved: {fault}", is_refused=True)
    return Outcome(f"group {group} moved to its positions in {', '.join(map(str, wanted))}")

"""Groups at the target of a copy, put where they stood at its source: their offsets translated by the map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from qanat.connection.committed import committed_offsets
from qanat.connection.faults import RefusedError
from qanat.model.ids import TopicPartition
from qanat.spark.copying.ledger import Copy
from qanat.spark.copying.link import Link
from qanat.spark.offsets import Offsets

_MARKER = 1
"""A transaction's end takes an offset behind its records."""


def translated(link: Link, stood: Offsets, copies: Mapping[str, Copy]) -> dict[TopicPartition, int]:
    """Old positions as new ones; a partition of which nothing was copied has none."""
    found: dict[TopicPartition, int] = {}
    behind: dict[TopicPartition, int] = {}
    for at, offset in stood.items():
        copy = copies.get(at.topic)
        if copy is None:
            continue
        known = link.ledger.map_of(copy, at.partition)
        new = known.translate(offset)
        if new is not None:
            place = TopicPartition(copy.topic, at.partition)
            found[place] = new
            if new == known.end:
                behind[place] = new
    # Whoever has read everything has read the transaction's end as well, and no lag is left.
    ends = link.lookups.latest(behind)
    return found | {place: end for place, end in ends.items() if end == behind[place] + _MARKER}


class Outcome(NamedTuple):
    """What came of it, in words, and whether the broker refused it."""

    text: str
    is_refused: bool = False


def put(link: Link, group: str, stood: Offsets, copies: Mapping[str, Copy], *, is_forward_only: bool) -> Outcome:
    """Commit for a group what it had committed at the source."""
    wanted = translated(link, stood, copies)
    if not wanted:
        return Outcome(f"group {group} stood nowhere in what was copied")
    if is_forward_only:
        now = link.lookups.run(lambda cluster, deadline: committed_offsets(cluster, group, deadline, only=wanted))
        wanted = {at: offset for at, offset in wanted.items() if now.get(at, -1) < offset}
        if not wanted:
            return Outcome(f"group {group} is where it should be")
    try:
        link.lookups.commit(group, wanted)
    except RefusedError as fault:
        return Outcome(f"group {group} stays where it is: {fault}", is_refused=True)
    return Outcome(f"group {group} put to its place in {', '.join(map(str, wanted))}")

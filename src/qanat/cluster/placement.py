"""Placement: which brokers get the replicas of a new topic, chosen evenly, or as the user assigned them.

Errors are Kafka's, in Kafka's words with what to do appended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qanat.cluster.rejection import Rejection
from qanat.model.error_codes import ErrorCode

Assignment = tuple[tuple[int, ...], ...]
"""The replicas of each partition, the preferred leader first."""


def place(
    brokers: Sequence[int],
    partitions: range,
    replication_factor: int,
    start: int,
    racks: Mapping[int, str | None] = {},
) -> Assignment | Rejection:
    """Spread replicas over `brokers` (sorted): leaders in turn, followers on the next ones, in other racks first.

    `start` turns the ring, so that not every topic's first partition lands on the first broker.
    """
    if replication_factor > len(brokers):
        missing = replication_factor - len(brokers)
        return Rejection(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only {len(brokers)} broker(s) are registered. "
            f"{_remedy(len(brokers), missing)}",
        )
    ring = _by_racks(brokers, racks)
    return tuple(_row(ring, start + number, replication_factor, racks) for number in partitions)


def _by_racks(brokers: Sequence[int], racks: Mapping[int, str | None]) -> list[int]:
    """The brokers in an order in which neighbours are in different racks, as far as possible."""
    places: dict[str | None, int] = {}
    turns = []
    for node_id in brokers:
        rack = racks.get(node_id)
        turns.append((places.get(rack, 0), rack or "", node_id))
        places[rack] = places.get(rack, 0) + 1
    # Without racks all brokers are in one, and the order stays as it is.
    return [node_id for _, _, node_id in sorted(turns)]


def _row(ring: Sequence[int], first: int, replication_factor: int, racks: Mapping[int, str | None]) -> tuple[int, ...]:
    """One partition's replicas: around the ring, a rack twice only when every rack has one."""
    order = [ring[(first + step) % len(ring)] for step in range(len(ring))]
    row: list[int] = []
    while len(row) < replication_factor:
        used = {racks.get(node_id) for node_id in row}
        left = [node_id for node_id in order if node_id not in row]
        is_spread = len(used) < len({racks.get(node_id) for node_id in order})
        row.append(next((one for one in left if is_spread and racks.get(one) not in used), left[0]))
    return tuple(row)


def _remedy(registered: int, missing: int) -> str:
    if registered == 0:
        return "Wait until a broker has registered."
    return f"Ask for at most {registered}, or for -1 to get the default, or start {missing} more broker(s)."


def check_assignment(given: Mapping[int, Sequence[int]], brokers: Mapping[int, object]) -> Assignment | Rejection:
    """A user's own assignment, partition by partition from 0 on."""
    if sorted(given) != list(range(len(given))):
        return _bad("partitions should be a consecutive 0-based integer sequence")
    rows = tuple(tuple(given[number]) for number in range(len(given)))
    return check_rows(rows, len(rows[0]), brokers)


def check_rows(rows: Assignment, replication_factor: int, brokers: Mapping[int, object]) -> Assignment | Rejection:
    """Rows of one length, of known brokers, none twice in a row."""
    for row in rows:
        if (problem := _row_problem(row, brokers)) is not None:
            return _bad(f"The manual partition assignment includes {problem}.")
        if len(row) != replication_factor:
            return _bad(
                f"The manual partition assignment includes a partition with {len(row)} replica(s), but this is not "
                f"consistent with previous partitions, which have {replication_factor} replica(s)."
            )
    return rows


def _row_problem(row: Sequence[int], brokers: Mapping[int, object]) -> str | None:
    if not row:
        return "an empty replica list"
    for place_in_row, node_id in enumerate(row):
        if node_id < 0:
            return f"an invalid broker id {node_id}"
        if node_id in row[:place_in_row]:
            return f"the broker {node_id} more than once"
        if node_id not in brokers:
            return f"broker {node_id}, but no such broker is registered"
    return None


def _bad(message: str) -> Rejection:
    return Rejection(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)

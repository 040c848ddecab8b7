"""Which brokers hold which replicas of a topic: chosen evenly, or as the user assigned them.

Errors are Kafka's, in Kafka's words with what to do appended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qanat.cluster.rejection import Rejection
from qanat.model.error_codes import ErrorCode

Assignment = tuple[tuple[int, ...], ...]
"""The replicas of each partition, the preferred leader first."""


def place(brokers: Sequence[int], partitions: range, replication_factor: int, start: int) -> Assignment | Rejection:
    """Spread replicas over `brokers` (sorted): leaders in turn, followers on the next ones.

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
    ring = len(brokers)
    return tuple(
        tuple(brokers[(start + number + replica) % ring] for replica in range(replication_factor))
        for number in partitions
    )


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

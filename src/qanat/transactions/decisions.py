"""A shard's decisions, and when the shell may act on them.

As with groups (`groups.decisions`), a decision changes the shard's state at
once and a failed append costs a reload.

Rule 1: append the records of decisions in the order in which they were made, each decision's as one batch.
Rule 2: release `reply` when the records of this decision and of every earlier one are durable, even
        where this one has no records: it may report what the earlier ones changed.
Rule 3: write `markers` when the same holds: a verdict that could be lost must not be visible anywhere. Continue
        until each partition has its marker or is deleted, then send `MarkersWritten`. No order among transactions.
Rule 4: an append that fails ends the shard. Drop it, refuse every request whose answer was not released
        (`replies.refused`, with `coordinator_error` of the cause), and load a new one from the log.
"""

from __future__ import annotations

from msgspec import Struct

from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.transactions.records import LedgerRecord
from qanat.transactions.replies import Reply


class Markers(Struct, frozen=True):
    """A transaction that is to be ended in its partitions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    transaction_version: int
    """2: no partition has seen the epoch before, unless this very marker was written already (KIP-1228)."""
    partitions: tuple[TopicPartition, ...]


class Decision(Struct, frozen=True):
    """Records to append, then an answer to give and markers to write; the order is that of the module's rules."""

    records: tuple[LedgerRecord, ...] = ()
    reply: Reply | None = None
    """None without a request, such as for a tick."""
    markers: tuple[Markers, ...] = ()


_SEEN_BY_CLIENTS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


def coordinator_error(append_error: ErrorCode) -> ErrorCode:
    """The error for a producer when appending to the internal topic failed."""
    return _SEEN_BY_CLIENTS.get(append_error, ErrorCode.UNKNOWN_SERVER_ERROR)

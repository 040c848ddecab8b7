"""A shard's decisions, and when the shell may act on them.

A decision changes the shard's state at once; its answers wait for the disks.
The alternative, deciding on state that lags behind the log, would need a
queue per group, so that every heartbeat waits behind every commit; reverting
single decisions would need snapshots of all state. Here a failed append costs
a reload instead, which a lost leadership costs anyway.

Rule 1: append the records of decisions in the order in which they were made,
        each decision's as one batch, transactional where `producer` is set.
Rule 2: release `reply` and `completed` when the records of this decision and of
        every earlier one are durable, even where this one has no records: it
        may report what the earlier ones changed.
Rule 3: an append that fails ends the shard. Drop it, refuse every request whose
        answer was not released (`replies.refused`, with `coordinator_error` of
        the cause), and load a new one from the log.
Rule 4: refuse before a decision what can be refused then, because of rule 3: the shell
        calls the shard only as leader of the partition, checks a transactional producer's epoch
        beforehand, and appends without a limit on the batch's size.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from qanat.groups.records import GroupRecord
from qanat.groups.replies import Reply
from qanat.model.error_codes import ErrorCode


class Parked(Struct, frozen=True):
    """No answer yet: it will be in some later decision's `completed`, under this ticket, once."""

    ticket: int


class Completed(NamedTuple):
    """The answer to a request that was parked."""

    ticket: int
    reply: Reply


class TransactionalProducer(NamedTuple):
    """The producer whose transaction the records belong to."""

    producer_id: int
    producer_epoch: int


class Decision(Struct, frozen=True):
    """Records to append, then answers to give; the order is that of the module's rules."""

    records: tuple[GroupRecord, ...] = ()
    reply: Reply | Parked | None = None
    """None without a request, such as for a tick."""
    completed: tuple[Completed, ...] = ()
    producer: TransactionalProducer | None = None


_SEEN_BY_CLIENTS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def coordinator_error(append_error: ErrorCode) -> ErrorCode:
    """The error for a group's client when appending to the internal topic failed."""
    return _SEEN_BY_CLIENTS.get(append_error, append_error)

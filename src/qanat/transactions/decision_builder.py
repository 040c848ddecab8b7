"""Builds one decision: the shard's state, the time, and the decision so far.

Timers follow the records: writing that a transaction has begun also
sets the deadline by which it is aborted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from qanat.model.clock import Now
from qanat.model.timers import Timers
from qanat.transactions.decisions import Decision, Markers
from qanat.transactions.ledger import Ledger
from qanat.transactions.records import LedgerRecord, TransactionRecord, TransactionTombstone
from qanat.transactions.replies import Reply
from qanat.transactions.settings import TransactionSettings
from qanat.transactions.states import TransactionState


class TimerKind(IntEnum):
    """Kinds of timers."""

    TRANSACTION = 0
    EXPIRY = 1


class Timer(NamedTuple):
    """A timer's name."""

    kind: TimerKind
    transactional_id: str = ""


@dataclass(slots=True)
class ShardState:
    """The whole state of a shard."""

    settings: TransactionSettings
    ledger: Ledger = field(default_factory=Ledger)
    timers: Timers[Timer] = field(default_factory=Timers)
    last_epochs: dict[str, int] = field(default_factory=dict)
    """The epoch that a producer had before its own request raised it: it may send it again, without the answer.
    Kafka's records have no field for it, so that a reload loses it: a later retry is fenced, which is safe.
    """


class DecisionBuilder:
    """Collects the effects of one request, or of one tick."""

    __slots__ = ("_markers", "_records", "now", "state")

    def __init__(self, state: ShardState, now: Now) -> None:
        self.state = state
        self.now = now
        self._records: list[LedgerRecord] = []
        self._markers: list[Markers] = []

    def get(self, transactional_id: str) -> TransactionRecord | None:
        return self.state.ledger.get(transactional_id)

    def write(self, record: TransactionRecord) -> None:
        before = self.get(record.transactional_id)
        self._records.append(record)
        self.state.ledger.apply(record)
        was_ongoing = before is not None and before.state is TransactionState.ONGOING
        if record.state is not TransactionState.ONGOING:
            self.state.timers.cancel(Timer(TimerKind.TRANSACTION, record.transactional_id))
        elif not was_ongoing:
            self.expect_end(record)
            # A producer that begins a transaction has received its epoch.
            self.state.last_epochs.pop(record.transactional_id, None)

    def expect_end(self, record: TransactionRecord) -> None:
        """Set the deadline of an open transaction: of a loaded one, as far as the wall clock is right."""
        age_ms = min(max(self.now.wall_ms - record.start_ms, 0), record.timeout_ms)
        timer = Timer(TimerKind.TRANSACTION, record.transactional_id)
        self.state.timers.schedule(timer, self.now.steady_ms + record.timeout_ms - age_ms)

    def forget(self, transactional_id: str) -> None:
        tombstone = TransactionTombstone(transactional_id)
        self._records.append(tombstone)
        self.state.ledger.apply(tombstone)
        self.state.last_epochs.pop(transactional_id, None)

    def mark(self, record: TransactionRecord) -> None:
        """Have the markers of a prepared transaction written."""
        assert record.state.is_prepared, record
        self._markers.append(
            Markers(
                record.transactional_id,
                record.producer_id,
                record.producer_epoch,
                record.state is TransactionState.PREPARE_COMMIT,
                record.client_version,
                record.partitions,
            )
        )

    def decision(self, reply: Reply | None = None) -> Decision:
        return Decision(tuple(self._records), reply, tuple(self._markers))

"""The records of `__transaction_state`, as values: the ledger of transactions consists of them.

The latest record of a transactional id is its whole state; a tombstone deletes
the id. Their bytes are Kafka's own (`record_codec`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from qanat.model.ids import NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition
from qanat.transactions.states import TransactionState

LAST_EPOCH = 2**15 - 1
"""Never given to a producer: it exists to fence the one before."""
CLASSIC = 0
"""Transaction version of clients that add partitions themselves, and keep their epoch."""
EPOCH_PER_TRANSACTION = 2
"""Transaction version 2 (KIP-890): partitions are added by writing to them, and every end raises the epoch."""


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """A transactional id: its producer, and the state of its transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: tuple[TopicPartition, ...] = ()
    """In the order in which they were added; empty unless the transaction is ongoing or being ended."""
    last_update_ms: int = NO_TIMESTAMP
    start_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the latest change."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id after the prepared transaction, where the epochs of the current one are used up."""
    client_version: int = CLASSIC
    """The transaction version that led to the state."""

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the producer needs a new id before it can have another epoch."""
        return self.producer_epoch >= LAST_EPOCH - 1

    def changed(self, now_ms: int, **fields: object) -> TransactionRecord:
        """The record that follows this one."""
        fields = {"previous_producer_id": self.producer_id, "next_producer_id": NO_PRODUCER_ID, **fields}
        return replace(self, last_update_ms=now_ms, **fields)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class TransactionTombstone:
    """The transactional id is deleted."""

    transactional_id: str


LedgerRecord: TypeAlias = TransactionRecord | TransactionTombstone

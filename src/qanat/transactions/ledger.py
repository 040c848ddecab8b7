"""The durable part of a shard: the latest record of every transactional id, and nothing else.

Rule: it changes in `apply` only, which refuses nothing.
"""

from __future__ import annotations

from qanat.transactions.records import LedgerRecord, TransactionRecord, TransactionTombstone


class Ledger:
    """The result of the records of one partition."""

    __slots__ = ("records",)

    def __init__(self) -> None:
        self.records: dict[str, TransactionRecord] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger) and self.records == other.records

    __hash__ = None  # type: ignore[assignment]

    def apply(self, record: LedgerRecord) -> None:
        if isinstance(record, TransactionTombstone):
            self.records.pop(record.transactional_id, None)
        else:
            self.records[record.transactional_id] = record

    def get(self, transactional_id: str) -> TransactionRecord | None:
        return self.records.get(transactional_id)

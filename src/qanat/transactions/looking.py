"""DescribeTransactions and ListTransactions: what operators see."""

from __future__ import annotations

from qanat.model.error_codes import ErrorCode
from qanat.transactions.records import TransactionRecord
from qanat.transactions.replies import DescribeReply, ListReply
from qanat.transactions.requests import DescribeTransaction, ListTransactions
from qanat.transactions.states import KNOWN_LABELS
from qanat.transactions.turn import Turn


def describe(turn: Turn, request: DescribeTransaction) -> DescribeReply:
    record = turn.get(request.transactional_id)
    return DescribeReply(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND) if record is None else DescribeReply(record=record)


def list_transactions(turn: Turn, request: ListTransactions) -> ListReply:
    """States by Kafka's names, case and all; one that does not exist lets nothing pass."""
    states = [KNOWN_LABELS[name] for name in request.states if name in KNOWN_LABELS]

    def is_wanted(record: TransactionRecord) -> bool:
        age_ms = turn.now.wall_ms - record.start_ms if record.start_ms >= 0 else -1
        return (
            (not request.states or record.state in states)
            and (not request.producer_ids or record.producer_id in request.producer_ids)
            and (request.duration_ms < 0 or age_ms > request.duration_ms)
        )

    return ListReply(records=tuple(one for one in turn.state.ledger.records.values() if is_wanted(one)))

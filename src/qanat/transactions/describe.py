"""DescribeTransactions and ListTransactions, for operators."""

from __future__ import annotations

from qanat.model.error_codes import ErrorCode
from qanat.transactions.decision_builder import DecisionBuilder
from qanat.transactions.records import TransactionRecord
from qanat.transactions.replies import DescribeReply, ListReply
from qanat.transactions.requests import DescribeTransaction, ListTransactions
from qanat.transactions.states import KNOWN_LABELS


def describe(builder: DecisionBuilder, request: DescribeTransaction) -> DescribeReply:
    record = builder.get(request.transactional_id)
    return DescribeReply(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND) if record is None else DescribeReply(record=record)


def list_transactions(builder: DecisionBuilder, request: ListTransactions) -> ListReply:
    """States by Kafka's names, case-sensitive; an unknown one matches nothing."""
    states = [KNOWN_LABELS[name] for name in request.states if name in KNOWN_LABELS]

    def is_wanted(record: TransactionRecord) -> bool:
        age_ms = builder.now.wall_ms - record.start_ms if record.start_ms >= 0 else -1
        return (
            (not request.states or record.state in states)
            and (not request.producer_ids or record.producer_id in request.producer_ids)
            and (request.duration_ms < 0 or age_ms > request.duration_ms)
        )

    return ListReply(records=tuple(one for one in builder.state.ledger.records.values() if is_wanted(one)))

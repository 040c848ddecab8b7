"""AddPartitionsToTxn, and the verification of a transactional write: is this partition part of the transaction?

The first partition begins the transaction. Clients of version 2 never send it:
the leader of a partition that they write to does it for them (KIP-890).
"""

from __future__ import annotations

from qanat.model.error_codes import ErrorCode
from qanat.transactions.decision_builder import DecisionBuilder
from qanat.transactions.records import TransactionRecord
from qanat.transactions.replies import AddReply, VerifyReply
from qanat.transactions.requests import AddPartitions, VerifyPartitions
from qanat.transactions.states import TransactionState


def add(builder: DecisionBuilder, request: AddPartitions) -> AddReply:
    before = builder.get(request.transactional_id)
    if before is not None and before.state.is_prepared:
        # Before any other check: the producer may have the producer id that follows the last epoch, and it becomes
        # current only when the markers are written (KAFKA-18660).
        return AddReply(ErrorCode.CONCURRENT_TRANSACTIONS)
    current = _current_or_error(builder, request)
    if isinstance(current, ErrorCode):
        return AddReply(current)
    is_new = current.state is not TransactionState.ONGOING
    partitions = tuple(dict.fromkeys((*current.partitions, *request.partitions)))
    if not is_new and partitions == current.partitions:
        return AddReply()
    builder.write(
        current.changed(
            builder.now.wall_ms,
            state=TransactionState.ONGOING,
            partitions=partitions,
            start_ms=builder.now.wall_ms if is_new else current.start_ms,
            client_version=request.client_version,
        )
    )
    return AddReply()


def verify(builder: DecisionBuilder, request: VerifyPartitions) -> VerifyReply:
    """A partition that is not part of the transaction can only come from a delayed write: the client must abort."""
    current = _current_or_error(builder, request)
    if isinstance(current, ErrorCode):
        return VerifyReply(dict.fromkeys(request.partitions, current))
    if current.state.is_prepared:
        return VerifyReply(dict.fromkeys(request.partitions, ErrorCode.CONCURRENT_TRANSACTIONS))
    known = dict.fromkeys(current.partitions)
    return VerifyReply(
        {
            partition: ErrorCode.NONE if partition in known else ErrorCode.TRANSACTION_ABORTABLE
            for partition in request.partitions
        }
    )


def _current_or_error(
    builder: DecisionBuilder, request: AddPartitions | VerifyPartitions
) -> TransactionRecord | ErrorCode:
    current = builder.get(request.transactional_id)
    if current is None or current.producer_id != request.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.producer_epoch != request.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return current

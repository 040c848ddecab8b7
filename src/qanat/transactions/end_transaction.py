"""The end of a transaction: by its producer, by its timeout, by its successor; and its completion after the markers.

Ending has two steps. The verdict is written first (`PREPARE_…`); then every
partition gets its marker, and after the last one the transaction is
complete. Nothing can change a written verdict (C38).

A classic client keeps its epoch. One of version 2 gets the next with every end
(KIP-890), and the markers carry it: delayed writes can no longer become
part of its next transaction (C35). The epoch identifies its retry: one
less than ours, and the same verdict.

While the markers are being written, a client of version 2 gets a retriable error whatever id
and epoch it names; a classic client only if they are its own.
"""

from __future__ import annotations

from qanat.model.error_codes import ErrorCode
from qanat.model.ids import NO_PRODUCER_ID
from qanat.transactions.decision_builder import DecisionBuilder
from qanat.transactions.records import CLASSIC, EPOCH_PER_TRANSACTION, LAST_EPOCH, TransactionRecord
from qanat.transactions.replies import CompletedReply, ProducerIdNeeded, ProducerReply
from qanat.transactions.requests import EndTransaction, MarkersWritten
from qanat.transactions.states import TransactionState

_PREPARED = {True: TransactionState.PREPARE_COMMIT, False: TransactionState.PREPARE_ABORT}
_COMPLETE = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}


def end(builder: DecisionBuilder, request: EndTransaction) -> ProducerReply | ProducerIdNeeded:
    current = builder.get(request.transactional_id)
    if current is None:
        return ProducerReply(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if request.client_version < EPOCH_PER_TRANSACTION:
        return _end_classic(builder, request, current)
    if current.state.is_prepared:
        # Before any other check: the producer already has what its last end brought it, and after the last epoch
        # that is a producer id which becomes current only when the markers are written (KAFKA-18464, KAFKA-18660).
        return ProducerReply(ErrorCode.CONCURRENT_TRANSACTIONS)
    if _is_retry(current, request):
        return _again(current, is_commit=request.is_commit)
    error = _identity_error(current, request)
    if error is not ErrorCode.NONE:
        return ProducerReply(error)
    if current.state is TransactionState.ONGOING or not request.is_commit:
        return _prepare_next_epoch(builder, request, current)
    return ProducerReply(ErrorCode.INVALID_TXN_STATE)


def _end_classic(builder: DecisionBuilder, request: EndTransaction, current: TransactionRecord) -> ProducerReply:
    """The end of a client that keeps its epoch: its epoch always equals ours, unless it is fenced."""
    error = _identity_error(current, request)
    if error is not ErrorCode.NONE:
        return ProducerReply(error)
    if current.state.is_prepared:
        return ProducerReply(ErrorCode.CONCURRENT_TRANSACTIONS)
    if current.state is TransactionState.ONGOING:
        return _prepare(builder, current, is_commit=request.is_commit)
    return _again(current, is_commit=request.is_commit)


def _identity_error(current: TransactionRecord, request: EndTransaction) -> ErrorCode:
    if current.producer_id != request.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.NONE if current.producer_epoch == request.producer_epoch else ErrorCode.PRODUCER_FENCED


def _is_retry(current: TransactionRecord, request: EndTransaction) -> bool:
    """Whether the request is one of version 2 that was decided before, and whose answer got lost."""
    is_complete = current.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    if current.client_version < EPOCH_PER_TRANSACTION or not is_complete:
        return False
    if current.producer_id == request.producer_id:
        return current.producer_epoch == request.producer_epoch + 1
    is_before = current.previous_producer_id == request.producer_id and current.producer_epoch == 0
    return is_before and request.producer_epoch == LAST_EPOCH - 1


def _again(current: TransactionRecord, *, is_commit: bool) -> ProducerReply:
    """The answer to a client that ends a transaction which is not ongoing (any more)."""
    verdict = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
    if current.state is not verdict:
        return ProducerReply(ErrorCode.INVALID_TXN_STATE)
    return ProducerReply(ErrorCode.NONE, current.producer_id, current.producer_epoch)


def _prepare(builder: DecisionBuilder, current: TransactionRecord, *, is_commit: bool) -> ProducerReply:
    """The verdict of a classic client, which keeps its epoch."""
    record = current.changed(builder.now.wall_ms, state=_PREPARED[is_commit])
    _write_prepared(builder, record)
    return ProducerReply(ErrorCode.NONE, record.producer_id, record.producer_epoch)


def _prepare_next_epoch(
    builder: DecisionBuilder, request: EndTransaction, current: TransactionRecord
) -> ProducerReply | ProducerIdNeeded:
    """The verdict of a client of version 2; an abort also of what never began, because of its new epoch."""
    next_producer_id: int = NO_PRODUCER_ID
    if current.is_epoch_exhausted:
        if request.fresh_producer_id is None:
            return ProducerIdNeeded()
        next_producer_id = request.fresh_producer_id
    is_ongoing = current.state is TransactionState.ONGOING
    record = current.changed(
        builder.now.wall_ms,
        state=_PREPARED[request.is_commit],
        producer_epoch=min(current.producer_epoch + 1, LAST_EPOCH),
        next_producer_id=next_producer_id,
        start_ms=current.start_ms if is_ongoing else builder.now.wall_ms,
        client_version=EPOCH_PER_TRANSACTION,
    )
    _write_prepared(builder, record)
    # A producer that does not get the answer may name its old epoch (KIP-360): it is given the same new one.
    builder.state.last_epochs[request.transactional_id] = current.producer_epoch
    if next_producer_id != NO_PRODUCER_ID:
        return ProducerReply(ErrorCode.NONE, next_producer_id, 0)
    return ProducerReply(ErrorCode.NONE, record.producer_id, record.producer_epoch)


def abort_and_fence(builder: DecisionBuilder, current: TransactionRecord) -> None:
    """Abort a transaction whose end its producer did not request, and fence the producer."""
    assert current.state is TransactionState.ONGOING, current
    builder.state.last_epochs.pop(current.transactional_id, None)
    record = current.changed(
        builder.now.wall_ms,
        state=TransactionState.PREPARE_ABORT,
        producer_epoch=min(current.producer_epoch + 1, LAST_EPOCH),
        client_version=CLASSIC,  # So that it is not taken for an end that the producer requested: see `_is_retry`.
    )
    _write_prepared(builder, record)


def _write_prepared(builder: DecisionBuilder, record: TransactionRecord) -> None:
    builder.write(record)
    builder.mark(record)


def complete(builder: DecisionBuilder, request: MarkersWritten) -> CompletedReply:
    """The markers are written; a repeated call, or one after a successor shard ended it, changes nothing."""
    current = builder.get(request.transactional_id)
    if current is None or not current.state.is_prepared:
        return CompletedReply()
    if (current.producer_id, current.producer_epoch) != (request.producer_id, request.producer_epoch):
        return CompletedReply()
    fields: dict[str, object] = {"state": _COMPLETE[current.state], "partitions": ()}
    if current.next_producer_id != NO_PRODUCER_ID:
        fields |= {"producer_id": current.next_producer_id, "producer_epoch": 0}
    builder.write(current.changed(builder.now.wall_ms, **fields))
    return CompletedReply()


def on_timeout(builder: DecisionBuilder, transactional_id: str) -> None:
    current = builder.get(transactional_id)
    if current is not None and current.state is TransactionState.ONGOING:
        abort_and_fence(builder, current)

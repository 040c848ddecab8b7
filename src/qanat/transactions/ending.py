"""How a transaction ends: by its producer, by its timeout, by its successor; and what follows the markers.

Ending goes in two steps. The verdict is written first (`PREPARE_…`); then every
partition gets its marker, and when the last one has, the transaction is
complete. Nothing can change a verdict that is written (C38).

A classic client keeps its epoch. One of version 2 gets the next with every end
(KIP-890), and the markers carry it: what it sent before can no longer be taken
for part of its next transaction (C35). Its retry is known by the epoch: one
less than ours, and the same verdict.

While the markers are on their way, version 2 is asked to come back whatever id
and epoch it names; a classic client only if they are its own.
"""

from __future__ import annotations

from qanat.model.error_codes import ErrorCode
from qanat.model.ids import NO_PRODUCER_ID
from qanat.transactions.records import CLASSIC, EPOCH_PER_TRANSACTION, LAST_EPOCH, TransactionRecord
from qanat.transactions.replies import CompletedReply, ProducerIdNeeded, ProducerReply
from qanat.transactions.requests import EndTransaction, MarkersWritten
from qanat.transactions.states import TransactionState
from qanat.transactions.turn import Turn

_PREPARED = {True: TransactionState.PREPARE_COMMIT, False: TransactionState.PREPARE_ABORT}
_COMPLETE = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}


def end(turn: Turn, request: EndTransaction) -> ProducerReply | ProducerIdNeeded:
    current = turn.get(request.transactional_id)
    if current is None:
        return ProducerReply(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if request.client_version < EPOCH_PER_TRANSACTION:
        return _end_classic(turn, request, current)
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
        return _prepare_next_epoch(turn, request, current)
    return ProducerReply(ErrorCode.INVALID_TXN_STATE)


def _end_classic(turn: Turn, request: EndTransaction, current: TransactionRecord) -> ProducerReply:
    """The end of a client that keeps its epoch: what it holds is always what we hold, unless it is fenced."""
    error = _identity_error(current, request)
    if error is not ErrorCode.NONE:
        return ProducerReply(error)
    if current.state.is_prepared:
        return ProducerReply(ErrorCode.CONCURRENT_TRANSACTIONS)
    if current.state is TransactionState.ONGOING:
        return _prepare(turn, current, is_commit=request.is_commit)
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
    """The answer to a client that ends what is not ongoing (any more)."""
    verdict = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
    if current.state is not verdict:
        return ProducerReply(ErrorCode.INVALID_TXN_STATE)
    return ProducerReply(ErrorCode.NONE, current.producer_id, current.producer_epoch)


def _prepare(turn: Turn, current: TransactionRecord, *, is_commit: bool) -> ProducerReply:
    """The verdict of a classic client, which keeps its epoch."""
    record = current.changed(turn.now.wall_ms, state=_PREPARED[is_commit])
    _write_prepared(turn, record)
    return ProducerReply(ErrorCode.NONE, record.producer_id, record.producer_epoch)


def _prepare_next_epoch(
    turn: Turn, request: EndTransaction, current: TransactionRecord
) -> ProducerReply | ProducerIdNeeded:
    """The verdict of a client of version 2; an abort also of what was never begun, for the sake of its new epoch."""
    next_producer_id: int = NO_PRODUCER_ID
    if current.is_epoch_exhausted:
        if request.fresh_producer_id is None:
            return ProducerIdNeeded()
        next_producer_id = request.fresh_producer_id
    is_ongoing = current.state is TransactionState.ONGOING
    record = current.changed(
        turn.now.wall_ms,
        state=_PREPARED[request.is_commit],
        producer_epoch=min(current.producer_epoch + 1, LAST_EPOCH),
        next_producer_id=next_producer_id,
        start_ms=current.start_ms if is_ongoing else turn.now.wall_ms,
        client_version=EPOCH_PER_TRANSACTION,
    )
    _write_prepared(turn, record)
    # A producer that does not hear the answer may say who it was (KIP-360): it is given the same epoch.
    turn.state.last_epochs[request.transactional_id] = current.producer_epoch
    if next_producer_id != NO_PRODUCER_ID:
        return ProducerReply(ErrorCode.NONE, next_producer_id, 0)
    return ProducerReply(ErrorCode.NONE, record.producer_id, record.producer_epoch)


def abort_and_fence(turn: Turn, current: TransactionRecord) -> None:
    """Abort a transaction that its producer did not ask to end, and let the producer write no more."""
    assert current.state is TransactionState.ONGOING, current
    turn.state.last_epochs.pop(current.transactional_id, None)
    record = current.changed(
        turn.now.wall_ms,
        state=TransactionState.PREPARE_ABORT,
        producer_epoch=min(current.producer_epoch + 1, LAST_EPOCH),
        client_version=CLASSIC,  # So that nobody takes it for an end that the producer asked for: see `_is_retry`.
    )
    _write_prepared(turn, record)


def _write_prepared(turn: Turn, record: TransactionRecord) -> None:
    turn.write(record)
    turn.mark(record)


def complete(turn: Turn, request: MarkersWritten) -> CompletedReply:
    """The markers are written; told twice, or of what was ended meanwhile by a successor shard, it changes nothing."""
    current = turn.get(request.transactional_id)
    if current is None or not current.state.is_prepared:
        return CompletedReply()
    if (current.producer_id, current.producer_epoch) != (request.producer_id, request.producer_epoch):
        return CompletedReply()
    fields: dict[str, object] = {"state": _COMPLETE[current.state], "partitions": ()}
    if current.next_producer_id != NO_PRODUCER_ID:
        fields |= {"producer_id": current.next_producer_id, "producer_epoch": 0}
    turn.write(current.changed(turn.now.wall_ms, **fields))
    return CompletedReply()


def on_timeout(turn: Turn, transactional_id: str) -> None:
    current = turn.get(transactional_id)
    if current is not None and current.state is TransactionState.ONGOING:
        abort_and_fence(turn, current)

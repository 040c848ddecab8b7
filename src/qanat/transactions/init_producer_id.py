"""InitProducerId: a new epoch for every producer that begins, and the end of its predecessor's transaction.

A producer that names its id and epoch continues after an error (KIP-360): it is given
the next epoch unless another producer has come in between. A retry of such a
request, whose answer got lost, gets the same answer (C34).

Differs from Kafka: a producer that names an outdated id or epoch is refused also
while a transaction is ongoing; Kafka lets it abort its successor's.
"""

from __future__ import annotations

from qanat.model.error_codes import ErrorCode
from qanat.model.ids import NO_TIMESTAMP
from qanat.transactions.decision_builder import DecisionBuilder
from qanat.transactions.end_transaction import abort_and_fence
from qanat.transactions.records import LAST_EPOCH, TransactionRecord
from qanat.transactions.replies import ProducerIdNeeded, ProducerReply
from qanat.transactions.requests import InitProducer, ProducerIdAndEpoch
from qanat.transactions.states import TransactionState


def initialise(builder: DecisionBuilder, request: InitProducer) -> ProducerReply | ProducerIdNeeded:
    if not 0 < request.timeout_ms <= builder.state.settings.transaction_max_timeout_ms:
        return ProducerReply(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    current = builder.get(request.transactional_id)
    if current is None:
        return _begin(builder, request)
    if current.state.is_prepared:
        # Before any other check: the producer may have the id that becomes current only when the markers are written.
        return ProducerReply(ErrorCode.CONCURRENT_TRANSACTIONS)
    last_epoch = builder.state.last_epochs.get(request.transactional_id)
    if request.expected is not None and not _is_current(current, last_epoch, request.expected):
        return ProducerReply(ErrorCode.PRODUCER_FENCED)
    if current.state is TransactionState.ONGOING:
        abort_and_fence(builder, current)
        if request.expected is not None:
            builder.state.last_epochs[request.transactional_id] = current.producer_epoch
        return ProducerReply(ErrorCode.CONCURRENT_TRANSACTIONS)
    return _go_on(builder, request, current)


def _is_current(current: TransactionRecord, last_epoch: int | None, expected: ProducerIdAndEpoch) -> bool:
    """Whether the producer is the current one, or has not received its new id or epoch yet."""
    is_before = expected == (current.previous_producer_id, last_epoch)
    return is_before or expected == (current.producer_id, current.producer_epoch)


def _begin(builder: DecisionBuilder, request: InitProducer) -> ProducerReply | ProducerIdNeeded:
    if request.fresh_producer_id is None:
        return ProducerIdNeeded()
    now_ms = builder.now.wall_ms
    record = TransactionRecord(
        request.transactional_id, request.fresh_producer_id, 0, request.timeout_ms, last_update_ms=now_ms
    )
    builder.write(record)
    return _reply(record)


def _go_on(
    builder: DecisionBuilder, request: InitProducer, current: TransactionRecord
) -> ProducerReply | ProducerIdNeeded:
    """Raise the epoch, unless this is a retry of the same producer: it is given what it has not received."""
    expected = request.expected
    fields: dict[str, object] = {
        "state": TransactionState.EMPTY,
        "partitions": (),
        "start_ms": NO_TIMESTAMP,
        "timeout_ms": request.timeout_ms,
    }
    is_retry = expected is not None and expected != (current.producer_id, current.producer_epoch)
    if is_retry and current.producer_epoch < LAST_EPOCH:
        fields |= {"previous_producer_id": current.previous_producer_id}
    elif current.is_epoch_exhausted:
        if request.fresh_producer_id is None:
            return ProducerIdNeeded()
        fields |= {"producer_id": request.fresh_producer_id, "producer_epoch": 0}
    else:
        fields |= {"producer_epoch": current.producer_epoch + 1}
    if expected is None:
        builder.state.last_epochs.pop(request.transactional_id, None)
    elif not is_retry:
        builder.state.last_epochs[request.transactional_id] = expected.producer_epoch
    record = current.changed(builder.now.wall_ms, **fields)
    builder.write(record)
    return _reply(record)


def _reply(record: TransactionRecord) -> ProducerReply:
    return ProducerReply(producer_id=record.producer_id, producer_epoch=record.producer_epoch)

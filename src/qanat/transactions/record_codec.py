"""Records of the ledger as key and value bytes in `__transaction_state`.

Values are written in version 1, which Kafka 3.8 and later read; version 0 is
read as well. Kinds of record of a later Kafka decode to None.
"""

from __future__ import annotations

from collections.abc import Iterable

from qanat.model.errors import MalformedMessageError
from qanat.model.ids import TopicPartition
from qanat.transactions.records import LedgerRecord, TransactionRecord, TransactionTombstone
from qanat.transactions.states import TransactionState
from qanat.wire.kafka.messages.transaction_state import PartitionsSchema, TransactionLogKey, TransactionLogValue
from qanat.wire.kafka.records import TRANSACTION_STATE, read_key, read_value, write_key, write_value

_KIND = 0
_VERSION = 1


def encode_record(record: LedgerRecord) -> tuple[bytes, bytes | None]:
    """Key and value; a tombstone has no value."""
    key = write_key(TRANSACTION_STATE, TransactionLogKey(record.transactional_id))
    if isinstance(record, TransactionTombstone):
        return key, None
    value = TransactionLogValue(
        producer_id=record.producer_id,
        producer_epoch=record.producer_epoch,
        transaction_timeout_ms=record.timeout_ms,
        transaction_status=record.state,
        transaction_partitions=None if record.state is TransactionState.EMPTY else _grouped(record.partitions),
        transaction_last_update_timestamp_ms=record.last_update_ms,
        transaction_start_timestamp_ms=record.start_ms,
        previous_producer_id=record.previous_producer_id,
        next_producer_id=record.next_producer_id,
        client_transaction_version=record.client_version,
    )
    return key, write_value(TRANSACTION_STATE, _KIND, value, _VERSION)


def decode_record(key: bytes, value: bytes | None) -> LedgerRecord | None:
    """A record from its bytes; None for unknown kinds."""
    kind, fields = read_key(TRANSACTION_STATE, key)
    if kind != _KIND:
        return None
    if value is None:
        return TransactionTombstone(fields.transactional_id)
    return _record(fields.transactional_id, read_value(TRANSACTION_STATE, kind, value))


def _record(transactional_id: str, value: TransactionLogValue) -> TransactionRecord:
    try:
        state = TransactionState(value.transaction_status)
    except ValueError:
        raise MalformedMessageError(
            f"transactional id {transactional_id} is in state {value.transaction_status}, which does not exist"
        ) from None
    return TransactionRecord(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        state,
        tuple(
            TopicPartition(topic.topic, number)
            for topic in value.transaction_partitions or []
            for number in topic.partition_ids
        ),
        value.transaction_last_update_timestamp_ms,
        value.transaction_start_timestamp_ms,
        value.previous_producer_id,
        value.next_producer_id,
        value.client_transaction_version,
    )


def _grouped(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    """By topic, neighbours only: so the order survives."""
    topics: list[PartitionsSchema] = []
    for partition in partitions:
        if not topics or topics[-1].topic != partition.topic:
            topics.append(PartitionsSchema(partition.topic, []))
        topics[-1].partition_ids.append(partition.partition)
    return topics

"""A transaction whose verdict is known, and whose end cannot be written down, as `make chaos` found on a full disk."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer
from tests.servers.conftest import RunningBroker

from qanat.broker.partition import Partition
from qanat.broker.partition_end import Written
from qanat.log.files import Buffer
from qanat.model.errors import DiskFullError
from qanat.transactions.record_codec import decode_record
from qanat.transactions.records import TransactionRecord
from qanat.transactions.states import TransactionState
from qanat.wire.records import decode_records

SECONDS = 30
REFUSALS = 3


def completes(batch: Buffer) -> bool:
    decoded = [decode_record(record.key or b"", record.value) for record in decode_records(memoryview(batch), 1 << 20)]
    records = [one for one in decoded if isinstance(one, TransactionRecord)]
    return any(record.state is TransactionState.COMPLETE_COMMIT for record in records)


def test_a_transaction_is_completed_later_where_its_end_could_not_be_written(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    unhandled: list[dict[str, Any]] = []
    refused: list[Partition] = []
    real = Partition.append_own

    def append_own(partition: Partition, batch: Buffer) -> Written:
        if len(refused) < REFUSALS and partition.at.topic == "__transaction_state" and completes(batch):
            refused.append(partition)
            raise DiskFullError("no space left")
        return real(partition, batch)

    async def listen() -> None:
        broker.loop.set_exception_handler(lambda _, context: unhandled.append(context))

    broker.call(listen())
    monkeypatch.setattr(Partition, "append_own", append_own)
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": "payments", "log_level": 0})
    producer.init_transactions(SECONDS)
    for _ in range(2):
        producer.begin_transaction()
        producer.produce("orders", b"value")
        producer.commit_transaction(SECONDS)

    assert len(refused) == REFUSALS
    assert unhandled == []

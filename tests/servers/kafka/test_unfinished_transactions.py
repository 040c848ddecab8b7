"""Transactions whose verdict is known and whose end is not: written down late, as `make chaos` found on a full disk, or
with markers that are still on their way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import sleep
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.servers.conftest import RunningBroker
from tests.servers.kafka.admin_requests import create, topic
from tests.servers.kafka.raw import RawClient

from qanat.broker.coordinators.transaction_markers import MarkerWriter
from qanat.broker.replicas.partition import EndMarker
from qanat.log.appended import Appended
from qanat.log.files import Buffer
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import DiskFullError
from qanat.model.ids import TopicPartition
from qanat.transactions.record_codec import decode_record
from qanat.transactions.records import TransactionRecord
from qanat.transactions.states import TransactionState
from qanat.wire.kafka.messages.end_txn import EndTxnRequest
from qanat.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, decode_records, encode_batch

SECONDS = 30
REFUSALS = 3
MOMENT_S = 0.2
"""Long enough to delay a write, and shorter than the coordinator's timeout."""


def completes(batch: Buffer) -> bool:
    decoded = [decode_record(record.key or b"", record.value) for record in decode_records(memoryview(batch), 1 << 20)]
    records = [one for one in decoded if isinstance(one, TransactionRecord)]
    return any(record.state is TransactionState.COMPLETE_COMMIT for record in records)


def test_a_transaction_is_completed_later_where_its_end_could_not_be_written(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    unhandled: list[dict[str, Any]] = []
    refused: list[PartitionLog] = []
    real = LogRuntime.append_own

    def append_own(runtime: LogRuntime, log: PartitionLog, batch: Buffer, leader_epoch: int) -> Appended:
        if len(refused) < REFUSALS and log.topic_partition.topic == "__transaction_state" and completes(batch):
            refused.append(log)
            raise DiskFullError("no space left")
        return real(runtime, log, batch, leader_epoch)

    async def listen() -> None:
        broker.loop.set_exception_handler(lambda _, context: unhandled.append(context))

    broker.call(listen())
    monkeypatch.setattr(LogRuntime, "append_own", append_own)
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": "payments", "log_level": 0})
    producer.init_transactions(SECONDS)
    for _ in range(2):
        producer.begin_transaction()
        producer.produce("orders", b"value")
        producer.commit_transaction(SECONDS)

    assert len(refused) == REFUSALS
    assert unhandled == []


class HeldMarkers:
    """Markers that reach no partition until they are released."""

    def __init__(self, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
        self._loop = broker.loop
        self._may_go = asyncio.Event()
        real = MarkerWriter.write_everywhere

        async def write_everywhere(
            writer: MarkerWriter, marker: EndMarker, partitions: Sequence[TopicPartition]
        ) -> dict[TopicPartition, ErrorCode]:
            await self._may_go.wait()
            return await real(writer, marker, partitions)

        monkeypatch.setattr(MarkerWriter, "write_everywhere", write_everywhere)

    def release(self) -> None:
        self._loop.call_soon_threadsafe(self._may_go.set)


def write_one(client: RawClient, who: tuple[int, int]) -> int:
    begin_write(client, who)
    return end_write(client)


def begin_write(client: RawClient, who: tuple[int, int]) -> None:
    """A write of version 2, which makes the partition part of the transaction."""
    batch = encode_batch(
        [Record(0, 1, b"key", b"value")],
        producer_id=who[0],
        producer_epoch=who[1],
        base_sequence=0,
        is_transactional=True,
    )
    data = [TopicProduceData("orders", bytes(16), [PartitionProduceData(0, memoryview(batch))])]
    client.send(ApiKey.PRODUCE, 12, ProduceRequest("payments", -1, 10_000, data))


def end_write(client: RawClient) -> int:
    answer = client.receive(ApiKey.PRODUCE, 12)
    return int(answer.responses[0].partition_responses[0].error_code)


def end(client: RawClient, who: tuple[int, int], *, is_commit: bool) -> tuple[int, tuple[int, int]]:
    answer = client.ask(ApiKey.END_TXN, 5, EndTxnRequest("payments", *who, is_commit))
    return answer.error_code, (answer.producer_id, answer.producer_epoch)


def begin(client: RawClient) -> tuple[int, int]:
    """A producer with an open transaction."""
    assert not create(client, topic("orders"))[0].error_code
    began = client.ask_coordinator(ApiKey.INIT_PRODUCER_ID, 5, InitProducerIdRequest("payments", 60_000))
    who = (began.producer_id, began.producer_epoch)
    assert write_one(client, who) == ErrorCode.NONE
    return who


def test_the_first_write_of_a_transaction_that_the_last_ones_marker_overtakes_is_taken(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader asks the coordinator, and while it waits for the answer the marker is written in its partition."""
    with RawClient(broker.address) as client:
        one = begin(client)
        held = HeldMarkers(broker, monkeypatch)
        error, two = end(client, one, is_commit=True)
        assert error == ErrorCode.NONE
        begin_write(client, two)
        sleep(MOMENT_S)
        held.release()
        assert end_write(client) == ErrorCode.NONE
        assert end(client, two, is_commit=True)[0] == ErrorCode.NONE


def test_a_producer_aborts_while_the_markers_of_its_commit_are_on_their_way(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As franz-go does where a group is rebalanced right after a commit; Kafka once fenced it too (KAFKA-18464)."""
    with RawClient(broker.address) as client:
        one = begin(client)
        held = HeldMarkers(broker, monkeypatch)
        error, two = end(client, one, is_commit=True)
        assert (error, two) == (ErrorCode.NONE, (one[0], one[1] + 1))

        assert end(client, two, is_commit=False)[0] == ErrorCode.CONCURRENT_TRANSACTIONS
        assert write_one(client, two) == ErrorCode.CONCURRENT_TRANSACTIONS
        held.release()
        error, three = end(client, two, is_commit=False)
        assert (error, three) == (ErrorCode.NONE, (one[0], one[1] + 2))
        assert write_one(client, three) == ErrorCode.NONE

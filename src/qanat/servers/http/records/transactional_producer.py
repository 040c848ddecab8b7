"""The transactional producer of an idempotency shard: batches and their note, visible together or not at all.

It uses transaction version 2: a write adds its partition, and every end raises the epoch, so that the next owner of the
transactional id fences the batches that are still in flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.records.append import ALL, append
from qanat.broker.replicas.durable_acknowledgement import acknowledged
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.servers.http.kafka_gateway import TRANSACTION
from qanat.servers.http.problems import check, problem_of
from qanat.transactions.records import EPOCH_PER_TRANSACTION
from qanat.wire.kafka.messages.end_txn import EndTxnRequest, EndTxnResponse
from qanat.wire.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from qanat.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import set_producer

if TYPE_CHECKING:
    from qanat.servers.http.kafka_gateway import KafkaGateway

_TIMEOUT_MS = 60_000
FENCED = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
)
"""Another node has the transactional id now, or had it in between: initialize it and read the notes again."""


class TransactionalProducer:
    """Transactions under one transactional id, one after the other."""

    def __init__(self, gateway: KafkaGateway, transactional_id: str) -> None:
        self._gateway = gateway
        self._name = transactional_id
        self._producer_id = self._epoch = -1
        self._sequences: dict[TopicPartition, int] = {}

    async def init(self) -> None:
        """Fence the previous owner of the id; its open transaction has ended when this returns."""
        request = InitProducerIdRequest(self._name, _TIMEOUT_MS)
        response: InitProducerIdResponse = await self._gateway.call_coordinator(
            self._gateway.own_caller,
            self._name,
            ApiKey.INIT_PRODUCER_ID,
            request,
            lambda answer: int(answer.error_code),
            TRANSACTION,
        )
        check(response.error_code, f"transactional id {self._name}")
        self._producer_id, self._epoch = response.producer_id, response.producer_epoch
        self._sequences = {}

    async def write(self, at: TopicPartition, batch: bytearray) -> int:
        """Write a batch to a partition that clients may write to; its first offset."""
        self._number(at, batch)
        data = PartitionProduceData(at.partition, memoryview(batch))
        request = ProduceRequest(
            self._name, ALL, round(self._gateway.timeout_s * 1000), [TopicProduceData(at.topic, partition_data=[data])]
        )
        leader = self._gateway.leader(at.topic, at.partition)
        response: ProduceResponse = await self._gateway.call(self._gateway.own_caller, ApiKey.PRODUCE, request, leader)
        answer = response.responses[0].partition_responses[0]
        check(answer.error_code, f"topic {at.topic} partition {at.partition}", answer.error_message)
        return int(answer.base_offset)

    async def write_note(self, at: TopicPartition, batch: bytearray) -> int:
        """Write a batch to a partition that only brokers write to; its first offset."""
        partition = self._gateway.broker.lookup.led(at.topic, at.partition)
        if isinstance(partition, ErrorCode):
            return await self.write(at, batch)
        self._number(at, batch)
        verification = self._gateway.broker.transaction_verification
        outcome = await verification.pass_first_write(
            self._name, self._producer_id, self._epoch, [partition], EPOCH_PER_TRANSACTION
        )
        check(outcome[partition], f"the note of an Idempotency-Key in {partition.at}")
        written = await append(partition, batch)
        if written.durable is not None:
            faults: list[QanatError] = []
            timeouts, timeout_s = self._gateway.broker.ack_timeouts, self._gateway.timeout_s
            await acknowledged({written.durable: None}, lambda _, fault: faults.append(fault), timeouts, timeout_s)
            if faults:
                raise faults[0]
        return written.base_offset

    async def end(self, *, is_committed: bool) -> None:
        """Commit or abort everything since the last end."""
        request = EndTxnRequest(self._name, self._producer_id, self._epoch, is_committed)
        response: EndTxnResponse = await self._gateway.call_coordinator(
            self._gateway.own_caller,
            self._name,
            ApiKey.END_TXN,
            request,
            lambda answer: int(answer.error_code),
            TRANSACTION,
        )
        if response.error_code:
            raise problem_of(response.error_code, f"the end of the transaction of {self._name}")
        self._producer_id, self._epoch = response.producer_id, response.producer_epoch
        self._sequences = {}

    def _number(self, at: TopicPartition, batch: bytearray) -> None:
        sequence = self._sequences.get(at, 0)
        count = set_producer(batch, self._producer_id, self._epoch, sequence, is_transactional=True)
        self._sequences[at] = sequence + count

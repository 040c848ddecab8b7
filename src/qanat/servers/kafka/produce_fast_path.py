# cython: language_level=3, annotation_typing=False
"""The fast path of Produce (0): one batch for one partition, as nearly every small request is.

It answers as `api.records.produce` does and makes nothing that this request does not need: batches of idempotent
producers, in open transactions and compressed ones included. A request that is not of this form
(`wire.kafka.fast_produce`), that must wait for the disk or a transaction coordinator before it is appended, or that is
refused, takes the ordinary path from the start: a refusal changes nothing, so the ordinary path refuses it again, with
its message.
Where an authorizer decides, it decides here as well (`api.permissions`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

from qanat.api.permissions import Permissions
from qanat.api.records.leader_hints import add_leader_hints
from qanat.api.records.transactional_produce import is_transactional
from qanat.broker.broker import Broker
from qanat.broker.replicas.durable_acknowledgement import DurableAcknowledgement
from qanat.broker.replicas.partition import Partition, Written
from qanat.model.errors import QanatError
from qanat.security.authorization import Operation, ResourceKind
from qanat.servers.kafka.connection import Answer, DeferredAnswer, KafkaConnection, Outcome
from qanat.servers.request_accounting import RequestAccounting
from qanat.wire.batch_header import CRC_FROM
from qanat.wire.crc import crc32c
from qanat.wire.kafka.fast_produce import CLIENT_ID_AT, FastHeader, FastProduce, read_fast_produce, write_fast_produce
from qanat.wire.kafka.headers import frame_response
from qanat.wire.kafka.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
    write_response,
)
from qanat.wire.kafka.registry import ApiKey

ALL, NONE, TOPIC_IDS_FROM = -1, 0, 13  # C constants, the same as in `api.records`.
# Looked up once: attribute access on an enumeration is slow.
_WRITE, _TOPIC, _TRANSACTIONAL_ID = Operation.WRITE, ResourceKind.TOPIC, ResourceKind.TRANSACTIONAL_ID
FAST_BYTES = 16 * 1024
"""Larger batches gain nothing from this: admission computes their checksum once."""


class OrdinaryPath(Enum):
    """The request takes the ordinary path: nothing has happened yet."""

    ORDINARY_PATH = 0


ORDINARY_PATH: Final = OrdinaryPath.ORDINARY_PATH


class ProduceFastPath:
    """Handles single-batch requests of all connections of one listener."""

    def __init__(self, broker: Broker, accounting: RequestAccounting) -> None:
        self.broker = broker
        self.accounting = accounting
        self.ack_timeouts = broker.ack_timeouts
        self._writable = broker.local_replicas.writable
        self._by_id = broker.local_replicas.by_id

    def try_handle(
        self, frame: memoryview, connection: KafkaConnection, permissions: Permissions | None, began: float
    ) -> Outcome | OrdinaryPath:
        """Append the batch of a request; its answer, at once or when the batch is durable.

        `permissions` is None where no authorizer decides.
        """
        request = read_fast_produce(frame)
        if request is None:
            return ORDINARY_PATH
        partition = self._find(request)
        acks = request.acks
        if partition is None or (acks == ALL and partition.leader is not None and partition.lacks_replicas):
            return ORDINARY_PATH
        if (refused_batches := connection.refused_batches) and partition.at in refused_batches:
            return ORDINARY_PATH
        if permissions is not None and not may_write(request, partition.topic, permissions):
            return ORDINARY_PATH
        written = append(request, frame[request.start : request.end], partition)
        if written is None:
            return ORDINARY_PATH
        accounting = self.accounting
        accounting.arrived(len(frame))
        if acks == ALL and written.durable is not None:
            accounting.handled(began)
            accounting.parked()
            # Not the frame: what waits needs no batch.
            client_id = bytes(frame[CLIENT_ID_AT : request.client_id_end])
            return _DurableAnswer(self, request, partition, written, client_id, connection, began)
        answer = b""
        if acks != NONE:
            answer = write_fast_produce(
                request, written.base_offset, written.append_time_ms, partition.log.log_start_offset
            )
        elapsed_s = accounting.answered_at_once(began, len(answer))
        if accounting.is_slow(elapsed_s):
            client_id = bytes(frame[CLIENT_ID_AT : request.client_id_end])
            accounting.log_slow(elapsed_s, client_id.decode(), connection.peer)
        return None if acks == NONE else [answer]

    def _find(self, request: FastProduce) -> Partition | None:
        """The partition, if clients may write to it here."""
        if request.version < TOPIC_IDS_FROM:
            return self._writable.get((request.topic.decode(), request.index))
        led = self._by_id.get((request.topic, request.index))
        return None if led is None else self._writable.get(led.at)


def append(request: FastProduce, batch: memoryview, partition: Partition) -> Written | None:
    """Append the batch of a request; None where it must wait, or is refused."""
    header = request.header
    try:
        if header is not None and is_sound(header, batch):
            if header.is_transactional and (request.transactional_id is None or not is_open(partition, header)):
                return None
            return partition.append_fast(batch, header)
        if request.transactional_id is not None or is_transactional(batch):
            return None
        return partition.append_now(batch)
    except QanatError:
        return None


def is_sound(header: FastHeader, batch: memoryview) -> bool:
    """Whether a batch may be appended by what `wire.kafka.fast_produce` found in its header."""
    return len(batch) <= FAST_BYTES and not batch.readonly and header.crc == crc32c(batch[CRC_FROM:])


def is_open(partition: Partition, header: FastHeader) -> bool:
    """Whether the producer's transaction is open here: the first write waits for the transaction coordinator."""
    return partition.log.producers.is_open(header.producer_id, header.producer_epoch)


def may_write(request: FastProduce, name: str, permissions: Permissions) -> bool:
    """Whether the client may write to the topic, and under its transactional id."""
    transactional_id = request.transactional_id
    if transactional_id is not None and not permissions.allow(_WRITE, _TRANSACTIONAL_ID, transactional_id.decode()):
        return False
    return permissions.allow(_WRITE, _TOPIC, name)


class _DurableAnswer(DeferredAnswer):
    """The answer to a request whose batch is in the log and not yet durable."""

    __slots__ = (
        "_began",
        "_client_id",
        "_connection",
        "_fault",
        "_partition",
        "_paths",
        "_request",
        "_send",
        "_written",
    )

    def __init__(
        self,
        paths: ProduceFastPath,
        request: FastProduce,
        partition: Partition,
        written: Written,
        client_id: bytes,
        connection: KafkaConnection,
        began: float,
    ) -> None:
        self._paths = paths
        self._request = request
        self._partition = partition
        self._written = written
        self._client_id = client_id
        self._connection = connection
        self._began = began
        self._fault: QanatError | None = None

    def then(self, send: Callable[[Answer], None]) -> None:
        self._send = send
        durable = self._written.durable
        assert durable is not None, "the answer waits"
        timeout_s = max(self._request.timeout_ms, 0) / 1000
        DurableAcknowledgement({durable: None}, self._refuse, self._complete, self._paths.ack_timeouts, timeout_s)

    def _refuse(self, _: None, fault: QanatError) -> None:
        self._fault = fault

    def _complete(self) -> None:
        if self._fault is None:
            start = self._partition.log.log_start_offset
            answer = write_fast_produce(self._request, self._written.base_offset, self._written.append_time_ms, start)
        else:
            answer = self._refusal(self._fault)
        accounting = self._paths.accounting
        accounting.unparked()
        elapsed_s = accounting.answered(self._began, len(answer))
        if accounting.is_slow(elapsed_s):
            accounting.log_slow(elapsed_s, self._client_id.decode(), self._connection.peer)
        self._send([answer])

    def _refusal(self, fault: QanatError) -> bytes:
        from qanat.api.records.produce import refuse_part  # Handlers are imported when they are first needed.

        request = self._request
        errors = self._paths.accounting.counters.errors
        errors[fault.code] = errors.get(fault.code, 0) + 1
        part = PartitionProduceResponse(request.index)
        refuse_part(part, fault)
        topic = TopicProduceResponse(partition_responses=[part])
        if request.version < TOPIC_IDS_FROM:
            topic.name = request.topic.decode()
        else:
            topic.topic_id = request.topic
        response = ProduceResponse([topic])
        add_leader_hints(response, self._paths.broker, self._connection)
        body = write_response(response, request.version)
        return b"".join(frame_response(ApiKey.PRODUCE, request.version, request.correlation_id, body))

# cython: language_level=3, annotation_typing=False
"""The fast path of Produce (0): one batch for one partition, as nearly every small request is.

It answers as `api.records.produce` does and makes nothing that this request does not need. A request that is not of
this form (`wire.kafka.fast_produce`), that must wait for the disk before it is appended, or that is refused, takes the
ordinary path from the start: a refusal changes nothing, so the ordinary path refuses it again, with its message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from qanat.api.records.ack_timeouts import AckTimeouts
from qanat.api.records.leader_hints import add_leader_hints
from qanat.broker.broker import Broker
from qanat.broker.replicas.partition import Partition
from qanat.broker.replicas.partition_end import Written
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.servers.kafka.connection import Answer, DeferredAnswer, KafkaConnection, Outcome
from qanat.servers.kafka.request_accounting import RequestAccounting
from qanat.wire.batch_header import CRC_FROM
from qanat.wire.crc import crc32c
from qanat.wire.kafka.fast_produce import CLIENT_ID_AT, FastProduce, read_fast_produce, write_fast_produce
from qanat.wire.kafka.headers import frame_response
from qanat.wire.kafka.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
    write_response,
)
from qanat.wire.kafka.registry import ApiKey

ALL, NONE = -1, 0  # C constants, the same as in `api.records.append`.
PLAIN_BYTES = 16 * 1024
"""Larger batches gain nothing from this: admission computes their checksum once."""


class OrdinaryPath(Enum):
    """The request takes the ordinary path: nothing has happened yet."""

    ORDINARY_PATH = 0


ORDINARY_PATH: Final = OrdinaryPath.ORDINARY_PATH


class AppendedRequest(NamedTuple):
    """A request whose batch is in the log and not yet durable."""

    request: FastProduce
    partition: Partition
    written: Written
    client_id: bytes
    connection: KafkaConnection
    began: float


class ProduceFastPath:
    """Handles single-batch requests of all connections of one listener."""

    def __init__(self, broker: Broker, accounting: RequestAccounting) -> None:
        self._broker = broker
        self._writable = broker.local_replicas.writable
        self._accounting = accounting
        self._ack_timeouts = AckTimeouts()

    def close(self) -> None:
        self._ack_timeouts.close()

    def try_handle(self, frame: memoryview, connection: KafkaConnection, began: float) -> Outcome | OrdinaryPath:
        """Append the batch of a request; its answer, at once or when the batch is durable."""
        request = read_fast_produce(frame)
        if request is None:
            return ORDINARY_PATH
        at = (request.name.decode(), request.index)
        partition = self._writable.get(at)
        acks = request.acks
        if (refused_batches := connection.refused_batches) and at in refused_batches:
            return ORDINARY_PATH
        if partition is None or (acks == ALL and partition.leader is not None and partition.lacks_replicas):
            return ORDINARY_PATH
        batch = frame[request.start : request.end]
        try:
            if is_plain(request, batch):
                written = partition.append_fast(batch, request.record_count, request.max_timestamp)
            else:
                written = partition.append_now(batch)
        except QanatError:
            return ORDINARY_PATH
        if written is None:
            return ORDINARY_PATH
        accounting = self._accounting
        accounting.arrived(len(frame))
        if acks == ALL and written.durable is not None:
            accounting.handled(began)
            accounting.parked()
            # Not the frame: its buffer receives the next requests.
            client_id = bytes(frame[CLIENT_ID_AT : request.client_id_end])
            appended = AppendedRequest(request, partition, written, client_id, connection, began)
            return _DurableAnswer(appended, accounting, self._ack_timeouts, self._broker)
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


def is_plain(request: FastProduce, batch: memoryview) -> bool:
    """Whether a batch may be appended by what `wire.kafka.fast_produce` found in its header."""
    return (
        request.record_count > 0
        and len(batch) <= PLAIN_BYTES
        and not batch.readonly
        and request.crc == crc32c(batch[CRC_FROM:])
    )


class _DurableAnswer(DeferredAnswer):
    """An answer that waits for durability, at most for the request's timeout."""

    __slots__ = ("_accounting", "_ack_timeouts", "_appended", "_broker", "_send")

    def __init__(
        self, appended: AppendedRequest, accounting: RequestAccounting, ack_timeouts: AckTimeouts, broker: Broker
    ) -> None:
        self._broker = broker
        self._appended = appended
        self._accounting = accounting
        self._ack_timeouts = ack_timeouts

    def then(self, send: Callable[[Answer], None]) -> None:
        self._send: Callable[[Answer], None] | None = send
        self._ack_timeouts.begin(self, max(self._appended.request.timeout_ms, 0) / 1000)
        durable = self._appended.written.durable
        assert durable is not None
        durable.sync_callback = self._done

    def _done(self, durable: asyncio.Future[None]) -> None:
        if durable.cancelled():
            self._refuse(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker is stopping")
        elif (fault := durable.exception()) is None:
            request, partition, written, *_ = self._appended
            start = partition.log.log_start_offset
            self._answer(write_fast_produce(request, written.base_offset, written.append_time_ms, start))
        elif isinstance(fault, QanatError):
            self._refuse(fault.code, str(fault))
        else:
            self._refuse(ErrorCode.UNKNOWN_SERVER_ERROR, str(fault))

    def time_out(self) -> None:
        self._refuse(ErrorCode.REQUEST_TIMED_OUT, "the batch was not on disk in time")

    def _refuse(self, code: ErrorCode, message: str) -> None:
        if self._send is None:
            return
        request, partition, written, *_ = self._appended
        errors = self._accounting.counters.errors
        errors[code] = errors.get(code, 0) + 1
        part = PartitionProduceResponse(
            request.index,
            code,
            written.base_offset,
            written.append_time_ms,
            partition.log.log_start_offset,
            error_message=message,
        )
        response = ProduceResponse([TopicProduceResponse(request.name.decode(), partition_responses=[part])])
        add_leader_hints(response, self._broker)
        body = write_response(response, request.version)
        chunks = frame_response(ApiKey.PRODUCE, request.version, request.correlation_id, body)
        self._answer(b"".join(chunks))

    def _answer(self, answer: bytes) -> None:
        send, self._send = self._send, None
        if send is None:
            return
        self._ack_timeouts.end(self)
        accounting, appended = self._accounting, self._appended
        accounting.unparked()
        elapsed_s = accounting.answered(appended.began, len(answer))
        if accounting.is_slow(elapsed_s):
            accounting.log_slow(elapsed_s, appended.client_id.decode(), appended.connection.peer)
        send([answer])

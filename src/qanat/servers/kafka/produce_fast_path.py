# cython: language_level=3, annotation_typing=False
"""Produce (0), the short way: one batch for one partition, which nearly every small request is.

The same as `produce`, with nothing made that this one does not need. Whatever is not as usual (what that is,
`wire.kafka.lone_produce` says), must wait for the disk before it can be appended, or is refused, goes the long way from
the start: a refusal changes nothing, so that it is refused again there, in words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from time import perf_counter
from typing import Final, NamedTuple

from qanat.api.records.ack_timeouts import AckTimeouts
from qanat.api.records.leader_hints import name_leaders
from qanat.broker.broker import Broker
from qanat.broker.replicas.partition import Partition
from qanat.broker.replicas.partition_end import Written
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.servers.kafka.connection import Answer, Later, Outcome
from qanat.telemetry.listener_counters import ApiCounters
from qanat.wire.batch_header import CRC_FROM
from qanat.wire.crc import crc32c
from qanat.wire.kafka.headers import frame_response
from qanat.wire.kafka.lone_produce import FastProduce, read_fast_produce, write_fast_produce
from qanat.wire.kafka.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
    write_response,
)
from qanat.wire.kafka.registry import ApiKey

ALL, NONE = -1, 0
PLAIN_BYTES = 16 * 1024
"""In larger batches nobody feels the few steps less; their checksum is taken once, by whoever admits them."""


class SlowPath(Enum):
    """Said of a request that is not taken here: nothing has happened yet."""

    LONG_WAY = 0


LONG_WAY: Final = SlowPath.LONG_WAY


class Taken(NamedTuple):
    """A request whose batch is in its log, and not yet on disk."""

    request: FastProduce
    partition: Partition
    written: Written


class ProduceFastPath:
    """Takes lone requests of all connections of one listener."""

    def __init__(self, broker: Broker, counters: ApiCounters) -> None:
        self._broker = broker
        self._writable = broker.local_replicas.writable
        self._counters = counters
        self._patience = AckTimeouts()

    def close(self) -> None:
        self._patience.close()

    def take(self, frame: memoryview, began: float) -> Outcome | SlowPath:
        """Append the batch of a lone request; what it is answered with, now or once its batch is on disk."""
        request = read_fast_produce(frame)
        if request is None:
            return LONG_WAY
        partition = self._writable.get((request.name.decode(), request.index))
        acks = request.acks
        if partition is None or (acks == ALL and partition.leader is not None and partition.lacks_replicas):
            return LONG_WAY
        batch = frame[request.start : request.end]
        try:
            if is_plain(request, batch):
                written = partition.append_fast(batch, request.record_count, request.max_timestamp)
            else:
                written = partition.append_now(batch)
        except QanatError:
            return LONG_WAY
        if written is None:
            return LONG_WAY
        counters = self._counters
        counters.requests += 1
        counters.request_bytes += len(frame)
        outcome: Outcome
        if acks == NONE:
            outcome = None
        elif acks == ALL and written.durable is not None:
            counters.parked += 1
            counters.loop_s += perf_counter() - began
            return _OnceDurable(Taken(request, partition, written), counters, began, self._patience, self._broker)
        else:
            answer = write_fast_produce(
                request, written.base_offset, written.append_time_ms, partition.log.log_start_offset
            )
            counters.response_bytes += len(answer)
            outcome = [answer]
        elapsed_s = perf_counter() - began
        counters.loop_s += elapsed_s
        counters.duration_s.observe(elapsed_s)
        return outcome


def is_plain(request: FastProduce, batch: memoryview) -> bool:
    """Whether a batch may be appended by what its request says of it."""
    return (
        request.record_count > 0
        and len(batch) <= PLAIN_BYTES
        and not batch.readonly
        and request.crc == crc32c(batch[CRC_FROM:])
    )


class _OnceDurable(Later):
    """An answer that waits for the disk, as long as the client is willing to."""

    __slots__ = ("_began", "_broker", "_counters", "_patience", "_send", "_taken")

    def __init__(
        self, taken: Taken, counters: ApiCounters, began: float, patience: AckTimeouts, broker: Broker
    ) -> None:
        self._broker = broker
        self._taken = taken
        self._counters = counters
        self._began = began
        self._patience = patience

    def then(self, send: Callable[[Answer], None]) -> None:
        self._send: Callable[[Answer], None] | None = send
        self._patience.begin(self, max(self._taken.request.timeout_ms, 0) / 1000)
        durable = self._taken.written.durable
        assert durable is not None
        durable.sync_callback = self._done

    def _done(self, durable: asyncio.Future[None]) -> None:
        if durable.cancelled():
            self._refuse(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker is stopping")
        elif (fault := durable.exception()) is None:
            request, partition, written = self._taken
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
        request, partition, written = self._taken
        self._counters.errors[code] = self._counters.errors.get(code, 0) + 1
        part = PartitionProduceResponse(
            request.index,
            code,
            written.base_offset,
            written.append_time_ms,
            partition.log.log_start_offset,
            error_message=message,
        )
        response = ProduceResponse([TopicProduceResponse(request.name.decode(), partition_responses=[part])])
        name_leaders(response, self._broker)
        body = write_response(response, request.version)
        chunks = frame_response(ApiKey.PRODUCE, request.version, request.correlation_id, body)
        self._answer(b"".join(chunks))

    def _answer(self, answer: bytes) -> None:
        send, self._send = self._send, None
        if send is None:
            return
        self._patience.end(self)
        counters = self._counters
        counters.parked -= 1
        counters.response_bytes += len(answer)
        counters.duration_s.observe(perf_counter() - self._began)
        send([answer])

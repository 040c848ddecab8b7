"""DATA of producers: records of one read become one batch per partition, acknowledged by ACK once durable.

An idempotent producer's frames are batches of their own: its sequence numbers must come again in the same batches when
it repeats them, and then the log recognizes them. To the accounting, a batch is a request. Where this broker does not
lead the partition, or the batch must wait, frames behind it wait too, so that its producer's records keep their order.

Rule: an ACK with an offset leaves after `DurableAcknowledgement` completed; an ACK with an error says that the record
      was not written, or that this is unknown (`request-timed-out`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from qanat.api.records.append import ALL, find_writable
from qanat.broker.replicas.durable_acknowledgement import DurableAcknowledgement
from qanat.connection.batch_producer import produce
from qanat.connection.faults import check
from qanat.edge.push_dialogue import WrongFrameError
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.wire.batch_header import HEADER_SIZE
from qanat.wire.compression import Codec
from qanat.wire.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.key_hash import partition_of
from qanat.wire.push.control import Ack, Producer, encode_control
from qanat.wire.push.data import Headers, PushedBatches, decode_data
from qanat.wire.push.frames import FrameType, PushFrame, encode_frame
from qanat.wire.push.plain import decode_plain
from qanat.wire.record_writer import encode_records
from qanat.wire.records import BatchFields, sealed

if TYPE_CHECKING:
    from qanat.broker.replicas.partition import Partition, Written
    from qanat.servers.push.ports import PushClient

UNACKNOWLEDGED_BYTES = 8 * 1024 * 1024
"""Bytes of a producer that are not acknowledged; at more, nothing is read from it."""
_BATCH_BYTES = 512 * 1024
_ACK_TIMEOUT_S = 30.0
_ACK = int(FrameType.ACK)


class _Row(NamedTuple):
    """A record that waits to be written."""

    frame_id: int
    size: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class _Batch(NamedTuple):
    """Records that are appended together."""

    at: TopicPartition
    rows: list[_Row]
    began: float
    """By `perf_counter`."""


class PushProducer:
    """The records of one connection."""

    def __init__(self, connection: PushClient) -> None:
        self._connection = connection
        self._cluster = connection.cluster
        self._broker = connection.cluster.broker
        self._accounting = connection.server.accounting
        self._topics: tuple[str, ...] = ()
        self.identity: Producer | None = None
        self._turns = 0
        self._rows: dict[TopicPartition, list[_Row]] = {}
        self._bytes = 0
        self._unacknowledged = 0
        self._loop = asyncio.get_running_loop()
        self._answers: list[bytes] = []
        """ACKs of this turn of the event loop: they leave together, after the records have left for subscribers."""

    @property
    def is_full(self) -> bool:
        return self._unacknowledged >= UNACKNOWLEDGED_BYTES

    async def open(self, topics: tuple[str, ...], producer: Producer | None) -> None:
        """Take the topics; an idempotent producer without an id gets one."""
        self._topics = topics
        self.identity = producer
        if producer is not None and producer.id < 0:
            request = InitProducerIdRequest(None, 0)
            response: InitProducerIdResponse = await self._cluster.call(ApiKey.INIT_PRODUCER_ID, request)
            check("a producer id", response.error_code)
            self.identity = Producer(response.producer_id, response.producer_epoch)

    def take(self, frame: PushFrame) -> Coroutine[Any, Any, None] | None:
        """Take a DATA frame; a coroutine where the frames behind it must wait."""
        if self._connection.is_plain:
            said = decode_plain(frame.payload)
            topic, partition, sequence = said.topic, said.partition, -1
            row = _Row(frame.id, len(frame.payload), said.timestamp, said.key_bytes, said.value_bytes, ())
            if topic not in self._connection.partition_counts:
                return self._take_new(topic, partition, row)
        else:
            data = decode_data(frame.payload)
            if data.topic >= len(self._topics):
                raise WrongFrameError("unknown-topic", f"DATA names topic {data.topic}, HEARTBEAT {len(self._topics)}")
            topic, partition = self._topics[data.topic], data.partition
            if isinstance(data, PushedBatches):
                count = self._connection.partition_counts[topic]
                if not 0 <= partition < count:
                    self._refuse_frame(frame.id, len(frame.payload), *_no_partition(topic, count))
                    return None
                if len(data.batches) < HEADER_SIZE:
                    no_batch = f"{len(data.batches)} bytes hold no batch"
                    self._refuse_frame(frame.id, len(frame.payload), ErrorCode.CORRUPT_MESSAGE, no_batch)
                    return None
                self.flush()  # What came before it is written before it, also where that has to wait.
                at, size = TopicPartition(topic, partition), len(frame.payload)
                return self._append_one(at, bytearray(data.batches), frame.id, size)
            sequence = data.offset
            row = _Row(frame.id, len(frame.payload), data.timestamp, data.key, data.value, data.headers)
        return self._place(topic, partition, sequence, row)

    async def _take_new(self, topic: str, partition: int, row: _Row) -> None:
        may_create = self._broker.settings.auto_create_topics_enable
        found = await self._cluster.topic(topic, self._cluster.deadline(), may_create=may_create)
        self._connection.partition_counts[topic] = len(found.leaders)
        work = self._place(topic, partition, -1, row)
        if work is not None:
            await work

    def _place(self, topic: str, partition: int, sequence: int, row: _Row) -> Coroutine[Any, Any, None] | None:
        if not self._connection.may_write(topic):
            self._refuse_frame(row.frame_id, row.size, *_no_right(topic))
            return None
        count = self._connection.partition_counts[topic]
        if partition < 0:
            self._turns += row.key is None
            partition = partition_of(row.key, count) if row.key is not None else self._turns % count
        if partition >= count:
            self._refuse_frame(row.frame_id, row.size, *_no_partition(topic, count))
            return None
        at = TopicPartition(topic, partition)
        if self.identity is not None:
            fields = BatchFields(
                producer_id=self.identity.id, producer_epoch=self.identity.epoch, base_sequence=sequence & 0x7FFFFFFF
            )
            return self._append_numbered(at, row, fields)
        self._rows.setdefault(at, []).append(row)
        self._bytes += row.size
        self._unacknowledged += row.size
        if self._bytes >= _BATCH_BYTES:
            self.flush()
        return None

    def _append_numbered(self, at: TopicPartition, row: _Row, fields: BatchFields) -> Coroutine[Any, Any, None] | None:
        """Append a record of an idempotent producer as a batch; those behind it need not wait for its ACK."""
        batch = _Batch(at, [row], perf_counter())
        partition = find_writable(self._broker, at.topic, at.partition, ALL)
        encoded = _batch_of_one(row, fields)
        if partition is None:
            return self._append_one(at, encoded, row.frame_id, row.size)
        self._unacknowledged += row.size
        end_offset = partition.log.end_offset
        try:
            written = partition.append_now(encoded)
        except QanatError as fault:
            self._append_each(batch, fault)
            return None
        if written is None:
            self._unacknowledged -= row.size
            return self._append_one(at, encoded, row.frame_id, row.size)
        if written.base_offset == end_offset:  # And not a repetition.
            self._connection.server.fresh.appended(partition, encoded, end_offset, 1)
        self._acknowledge(batch, written)
        return None

    # Appending

    def flush(self) -> None:
        """Append what has been taken since the last time: one batch per partition."""
        if not self._rows:
            return
        waiting, self._rows, self._bytes = self._rows, {}, 0
        for at, rows in waiting.items():
            self._append(_Batch(at, rows, perf_counter()))

    def _append(self, batch: _Batch) -> None:
        partition = find_writable(self._broker, batch.at.topic, batch.at.partition, ALL)
        if partition is None:
            self._connection.hold(self._produce(batch))
            return
        encoded = _encoded(batch.rows)
        try:
            written = partition.append_now(encoded)
        except QanatError as fault:
            self._append_each(batch, fault)
            return
        if written is None:
            self._connection.hold(self._append_slowly(partition, batch))
        else:
            self._connection.server.fresh.appended(partition, encoded, written.base_offset, len(batch.rows))
            self._acknowledge(batch, written)

    def _append_each(self, batch: _Batch, fault: QanatError) -> None:
        """One bad record does not cost the others."""
        if len(batch.rows) > 1:
            self._connection.hold(self._append_in_turn(batch))
        else:
            self._refused(batch, fault)

    async def _append_in_turn(self, batch: _Batch) -> None:
        """Append each record by itself: one that has to wait holds those behind it."""
        for row in batch.rows:
            one = _Batch(batch.at, [row], perf_counter())
            partition = find_writable(self._broker, batch.at.topic, batch.at.partition, ALL)
            if partition is None:
                await self._produce(one)
            else:
                await self._append_slowly(partition, one)

    async def _append_slowly(self, partition: Partition, batch: _Batch) -> None:
        try:
            written = await partition.append(_encoded(batch.rows))
        except QanatError as fault:
            self._append_each(batch, fault)
        else:
            self._acknowledge(batch, written)

    async def _produce(self, batch: _Batch) -> None:
        """Through Produce, to whichever broker leads."""
        topic, partition = batch.at
        try:
            encoded = {partition: _encoded(batch.rows)}
            found = await produce(self._cluster, topic, encoded, ALL, self._cluster.deadline())
        except QanatError as fault:
            self._refused(batch, fault)
        else:
            self._acknowledged(batch, found[partition])

    def _acknowledge(self, batch: _Batch, written: Written) -> None:
        if written.durable is None:
            self._acknowledged(batch, written.base_offset)
            return
        refused: list[QanatError] = []

        def complete() -> None:
            self._accounting.unparked()
            if refused:
                self._refused(batch, refused[0])
            else:
                self._acknowledged(batch, written.base_offset)

        self._accounting.handled(batch.began)
        self._accounting.parked()
        DurableAcknowledgement(
            {written.durable: batch.at},
            lambda _, fault: refused.append(fault),
            complete,
            self._broker.ack_timeouts,
            _ACK_TIMEOUT_S,
        )

    def _acknowledged(self, batch: _Batch, base_offset: int) -> None:
        partition = batch.at.partition
        size = answered = 0
        for offset, row in enumerate(batch.rows, base_offset):
            size += row.size
            if row.frame_id:
                answered += self._answer(row.frame_id, b'{"partition":%d,"offset":%d}' % (partition, offset))
        self._unacknowledged -= size
        self._account(batch.began, size, answered)
        self._connection.regulate()

    def _refused(self, batch: _Batch, fault: QanatError) -> None:
        size = answered = 0
        for row in batch.rows:
            size += row.size
            answered += self._refuse(row.frame_id, fault.code, str(fault))
        self._unacknowledged -= size
        self._account(batch.began, size, answered)
        self._connection.regulate()

    # Answers

    def _refuse_frame(self, frame_id: int, size: int, code: ErrorCode, message: str) -> None:
        """Refuse a frame that belongs to no batch."""
        self._account(perf_counter(), size, self._refuse(frame_id, code, message))

    def _refuse(self, frame_id: int, code: ErrorCode, message: str) -> int:
        errors = self._accounting.counters.errors
        errors[code] = errors.get(code, 0) + 1
        error = code.name.lower().replace("_", "-")
        return self._answer(frame_id, encode_control(Ack(error=error, message=message[:1000])))

    def _answer(self, frame_id: int, payload: bytes) -> int:
        """Queue an ACK; returns its bytes."""
        if not self._answers:
            self._loop.call_soon(self.send_answers)
        frame = encode_frame(_ACK, frame_id, payload)
        self._answers.append(frame)
        return len(frame)

    def _account(self, began: float, size: int, answered: int) -> None:
        accounting = self._accounting
        accounting.arrived(size)
        elapsed_s = accounting.answered(began, answered)
        if accounting.is_slow(elapsed_s):
            accounting.log_slow(elapsed_s, self._connection.client, self._connection.peer)

    def send_answers(self) -> None:
        """Send the ACKs that have not left yet, as before the connection ends."""
        if self._answers:
            answers, self._answers = self._answers, []
            self._connection.send_chunks([b"".join(answers)])

    # Batches of their own

    async def _append_one(self, at: TopicPartition, batch: bytearray, frame_id: int, size: int) -> None:
        """Append a finished batch through Produce's own handler, which checks it as it checks any."""
        began = perf_counter()
        try:
            if not self._connection.may_write(at.topic):
                answered = self._refuse(frame_id, *_no_right(at.topic))
            else:
                found = await produce(self._cluster, at.topic, {at.partition: batch}, ALL, self._cluster.deadline())
                acknowledged = encode_control(Ack(partition=at.partition, offset=found[at.partition]))
                answered = self._answer(frame_id, acknowledged)
        except QanatError as fault:
            answered = self._refuse(frame_id, fault.code, str(fault))
        self._account(began, size, answered)


def _no_right(topic: str) -> tuple[ErrorCode, str]:
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"topic {topic} may not be written to"


def _no_partition(topic: str, count: int) -> tuple[ErrorCode, str]:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} has {count} partitions"


def _batch_of_one(row: _Row, fields: BatchFields) -> bytearray:
    moment = row.timestamp if row.timestamp >= 0 else time.time_ns() // 1_000_000
    payload = encode_records([(0, 0, 0, row.key, row.value, row.headers)], HEADER_SIZE)
    return sealed(payload, fields, Codec.NONE, 1, 0, moment, moment)


def _encoded(rows: list[_Row]) -> bytearray:
    """A batch of these records; one without a timestamp gets the time of its arrival."""
    now_ms = time.time_ns() // 1_000_000
    times = [row.timestamp if row.timestamp >= 0 else now_ms for row in rows]
    base = times[0]
    raw = [
        (0, moment - base, number, row.key, row.value, row.headers)
        for number, (row, moment) in enumerate(zip(rows, times, strict=True))
    ]
    payload = encode_records(raw, HEADER_SIZE)
    return sealed(payload, BatchFields(), Codec.NONE, len(raw), len(raw) - 1, base, max(times))

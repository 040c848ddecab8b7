"""DATA of producers: records of one read become one batch per partition, acknowledged by ACK once durable.

An idempotent producer's frames are batches of their own: its sequence numbers must come again in the same batches when
it repeats them, and then the log recognizes them. Where this broker does not lead the partition, or the batch must
wait, frames behind it wait as well, so that a producer's records keep their order.

Rule: an ACK with an offset leaves after `DurableAcknowledgement` completed; an ACK with an error says that the record
      was not written, or that this is unknown (`request-timed-out`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from qanat.api.records.append import ALL, find_writable
from qanat.broker.replicas.durable_acknowledgement import DurableAcknowledgement
from qanat.connection.batch_producer import produce
from qanat.connection.faults import check
from qanat.edge.push_dialogue import WrongFrameError
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


class PushProducer:
    """The records of one connection."""

    def __init__(self, connection: PushClient) -> None:
        self._connection = connection
        self._cluster = connection.cluster
        self._broker = connection.cluster.broker
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
                    self._refuse(frame.id, "unknown-topic-or-partition", f"topic {topic} has {count} partitions")
                    return None
                if len(data.batches) < HEADER_SIZE:
                    self._refuse(frame.id, "corrupt-message", f"{len(data.batches)} bytes hold no batch")
                    return None
                self.flush()  # What came before it is written before it, also where that has to wait.
                return self._append_one(TopicPartition(topic, partition), bytearray(data.batches), frame.id)
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
            self._refuse(row.frame_id, "topic-authorization-failed", f"topic {topic} may not be written to")
            return None
        count = self._connection.partition_counts[topic]
        if partition < 0:
            self._turns += row.key is None
            partition = partition_of(row.key, count) if row.key is not None else self._turns % count
        if partition >= count:
            self._refuse(row.frame_id, "unknown-topic-or-partition", f"topic {topic} has {count} partitions")
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
        partition = find_writable(self._broker, at.topic, at.partition, ALL)
        batch = _batch_of_one(row, fields)
        if partition is None:
            return self._append_one(at, batch, row.frame_id)
        self._unacknowledged += row.size
        end_offset = partition.log.end_offset
        try:
            written = partition.append_now(batch)
        except QanatError as fault:
            self._append_each(at, [row], fault)
            return None
        if written is None:
            self._unacknowledged -= row.size
            return self._append_one(at, batch, row.frame_id)
        if written.base_offset == end_offset:  # And not a repetition.
            self._connection.server.fresh.appended(partition, batch, end_offset, 1)
        self._acknowledge(at, written, [row])
        return None

    # Appending

    def flush(self) -> None:
        """Append what has been taken since the last time: one batch per partition."""
        if not self._rows:
            return
        waiting, self._rows, self._bytes = self._rows, {}, 0
        for at, rows in waiting.items():
            self._append(at, rows)

    def _append(self, at: TopicPartition, rows: list[_Row]) -> None:
        partition = find_writable(self._broker, at.topic, at.partition, ALL)
        if partition is None:
            self._connection.hold(self._produce(at, rows))
            return
        batch = _batch(rows)
        try:
            written = partition.append_now(batch)
        except QanatError as fault:
            self._append_each(at, rows, fault)
            return
        if written is None:
            self._connection.hold(self._append_slowly(partition, at, rows))
        else:
            self._connection.server.fresh.appended(partition, batch, written.base_offset, len(rows))
            self._acknowledge(at, written, rows)

    def _append_each(self, at: TopicPartition, rows: list[_Row], fault: QanatError) -> None:
        """One bad record does not cost the others."""
        if len(rows) > 1:
            self._connection.hold(self._append_in_turn(at, rows))
            return
        self._unacknowledged -= rows[0].size
        self._refuse(rows[0].frame_id, fault.code.name.lower().replace("_", "-"), str(fault))

    async def _append_in_turn(self, at: TopicPartition, rows: list[_Row]) -> None:
        """Append each record by itself: one that has to wait holds those behind it."""
        for row in rows:
            partition = find_writable(self._broker, at.topic, at.partition, ALL)
            if partition is None:
                await self._produce(at, [row])
            else:
                await self._append_slowly(partition, at, [row])

    async def _append_slowly(self, partition: Partition, at: TopicPartition, rows: list[_Row]) -> None:
        try:
            written = await partition.append(_batch(rows))
        except QanatError as fault:
            self._append_each(at, rows, fault)
        else:
            self._acknowledge(at, written, rows)

    async def _produce(self, at: TopicPartition, rows: list[_Row]) -> None:
        """Through Produce, to whichever broker leads."""
        try:
            found = await produce(self._cluster, at.topic, {at.partition: _batch(rows)}, ALL, self._cluster.deadline())
        except QanatError as fault:
            for row in rows:
                self._unacknowledged -= row.size
                self._refuse(row.frame_id, fault.code.name.lower().replace("_", "-"), str(fault))
        else:
            self._acknowledged(at, found[at.partition], rows)

    def _acknowledge(self, at: TopicPartition, written: Written, rows: list[_Row]) -> None:
        if written.durable is None:
            self._acknowledged(at, written.base_offset, rows)
            return
        refused: list[QanatError] = []

        def complete() -> None:
            if refused:
                for row in rows:
                    self._unacknowledged -= row.size
                    self._refuse(row.frame_id, refused[0].code.name.lower().replace("_", "-"), str(refused[0]))
            else:
                self._acknowledged(at, written.base_offset, rows)

        DurableAcknowledgement(
            {written.durable: at},
            lambda _, fault: refused.append(fault),
            complete,
            self._broker.ack_timeouts,
            _ACK_TIMEOUT_S,
        )

    def _acknowledged(self, at: TopicPartition, base_offset: int, rows: list[_Row]) -> None:
        partition = at.partition
        for offset, row in enumerate(rows, base_offset):
            self._unacknowledged -= row.size
            if row.frame_id:
                self._answer(row.frame_id, b'{"partition":%d,"offset":%d}' % (partition, offset))
        self._connection.regulate()

    def _refuse(self, frame_id: int, error: str, message: str) -> None:
        self._answer(frame_id, encode_control(Ack(error=error, message=message[:1000])))

    def _answer(self, frame_id: int, payload: bytes) -> None:
        if not self._answers:
            self._loop.call_soon(self.send_answers)
        self._answers.append(encode_frame(_ACK, frame_id, payload))

    def send_answers(self) -> None:
        """Send the ACKs that have not left yet, as before the connection ends."""
        if self._answers:
            answers, self._answers = self._answers, []
            self._connection.send_chunks([b"".join(answers)])

    # Batches of their own

    async def _append_one(self, at: TopicPartition, batch: bytearray, frame_id: int) -> None:
        """Append a finished batch through Produce's own handler, which checks it as it checks any."""
        if not self._connection.may_write(at.topic):
            self._refuse(frame_id, "topic-authorization-failed", f"topic {at.topic} may not be written to")
            return
        try:
            found = await produce(self._cluster, at.topic, {at.partition: batch}, ALL, self._cluster.deadline())
        except QanatError as fault:
            self._refuse(frame_id, fault.code.name.lower().replace("_", "-"), str(fault))
            return
        self._answer(frame_id, encode_control(Ack(partition=at.partition, offset=found[at.partition])))


def _batch_of_one(row: _Row, fields: BatchFields) -> bytearray:
    moment = row.timestamp if row.timestamp >= 0 else time.time_ns() // 1_000_000
    payload = encode_records([(0, 0, 0, row.key, row.value, row.headers)], HEADER_SIZE)
    return sealed(payload, fields, Codec.NONE, 1, 0, moment, moment)


def _batch(rows: list[_Row], fields: BatchFields | None = None) -> bytearray:
    """A batch of these records; one without a timestamp gets the time of its arrival."""
    now_ms = time.time_ns() // 1_000_000
    times = [row.timestamp if row.timestamp >= 0 else now_ms for row in rows]
    base = times[0]
    raw = [
        (0, moment - base, number, row.key, row.value, row.headers)
        for number, (row, moment) in enumerate(zip(rows, times, strict=True))
    ]
    payload = encode_records(raw, HEADER_SIZE)
    return sealed(payload, fields or BatchFields(), Codec.NONE, len(raw), len(raw) - 1, base, max(times))

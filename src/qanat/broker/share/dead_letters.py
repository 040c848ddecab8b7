"""Dead letters: records that a share group has given up, written to its dead-letter topic.

A dead letter is the whole record (key, value, headers, timestamp) with headers that say where it comes from and why
(`qanat.model.dead_letters`). It goes to the partition of the same number, modulo the topic's partitions, so that
order is preserved.

Rule 1: a record is archived only once its letter is durable: after a crash, or when the disk hangs, it may be written
        twice, never not at all.
Rule 2: any failure (no such topic, a full disk) is logged, and retried for as long as it takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from qanat.broker.replicas.durable_acknowledgement import acknowledged
from qanat.broker.replicas.partition import Partition
from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.broker.share.share_host import ShareHost
from qanat.broker.share.share_partition import LedSharePartition
from qanat.cluster.rejection import Rejection
from qanat.cluster.topics import CreateTopic
from qanat.connection.faults import error_code
from qanat.groups.share.partition import ArchivingRange
from qanat.log.runtime.sync_future import SyncFuture
from qanat.model.dead_letters import Origin
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import OffsetOutOfRangeError, QanatError
from qanat.model.ids import TopicPartition
from qanat.telemetry.events import RateLimitedEvent
from qanat.telemetry.share_counters import ShareCounters
from qanat.wire.batch_header import read_header, split_batches
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, decode_records, encode_batch

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_READ_BYTES = 1024 * 1024
_BATCH_BYTES = 512 * 1024
"""Letters are written in batches of about this size."""
_DECODED_BYTES_MAX = 64 * 1024 * 1024
_DURABLE_S = 60.0
"""How long letters may take to be on disk; then that is reported, and they are written again."""
_CALL_S = 10.0
"""How long another broker may take to write letters."""
_BY_NAME = 12
"""The last version of Produce that names topics by their names."""


class UndeliverableError(QanatError):
    """A dead letter cannot be written for now."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class DeadLetters:
    """Writes dead letters, for all groups of a broker."""

    def __init__(self, host: ShareHost, counters: ShareCounters | None = None) -> None:
        self._host = host
        self._counters = ShareCounters() if counters is None else counters
        self._report_failure = RateLimitedEvent("dead letters cannot be written")

    def write(self, led: LedSharePartition, archiving: Sequence[ArchivingRange]) -> None:
        """Write the letters in a task of its own, and then archive the records."""
        self._host.park(self._write_dead_letters(led, tuple(archiving)))

    async def _write_dead_letters(self, led: LedSharePartition, archiving: Sequence[ArchivingRange]) -> None:
        for one in archiving:
            pause_s = _FIRST_PAUSE_S
            while led.is_serving:
                topic = led.policy.dead_letter_topic
                try:
                    if topic and topic != led.partition.at.topic:
                        await self._write(led, one, topic)
                    break
                except QanatError as fault:
                    self._report_failure(group=led.key.group_id, topic=topic, reason=str(fault))
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            if led.is_serving:
                led.archive(one.first_offset, one.last_offset)

    async def _write(self, led: LedSharePartition, archiving: ArchivingRange, topic: str) -> None:
        target = await self._target(topic, led.key.partition)
        letters: list[Record] = []
        size = 0
        for record in await self._records(led.partition, archiving):
            letters.append(_letter(record, len(letters), led, archiving))
            size += len(record.key or b"") + len(record.value or b"")
            if size >= _BATCH_BYTES:
                await self._append(target, letters)
                letters, size = [], 0
        await self._append(target, letters)

    async def _target(self, topic: str, number: int) -> TopicPartition:
        """The partition for letters from a partition of this number; the topic is created if that is allowed."""
        host = self._host
        if topic not in host.metadata.image.topics:
            if not host.current_settings.broker.auto_create_topics_enable:
                raise UndeliverableError(
                    f"there is no topic named {topic!r}: create it, or set auto.create.topics.enable"
                )
            outcome = await host.metadata_changes.create_topic(CreateTopic(topic, host.metadata_changes.new_topic_id()))
            if isinstance(outcome, Rejection) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise UndeliverableError(f"the topic {topic!r} cannot be created: {outcome.message}")
        return TopicPartition(topic, number % len(host.metadata.image.topics[topic].partitions))

    async def _append(self, target: TopicPartition, letters: Sequence[Record]) -> None:
        """Write letters, here or by a request to the leader; they are safe when this returns."""
        if not letters:
            return
        batch = encode_batch(letters)
        partition = self._host.lookup.writable(target.topic, target.partition)
        if isinstance(partition, Partition):
            async with self._host.runtime.queued(partition.log):
                durable = partition.append_own(batch).durable
            if durable is not None:
                await self._acknowledged(durable)
        elif partition is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            await self._send(target, bytes(batch))
        else:
            raise UndeliverableError(f"{target} cannot be written: {partition.name}")
        self._counters.dead_letters += len(letters)

    async def _acknowledged(self, durable: SyncFuture[None]) -> None:
        """Return once letters are durable; raises where they are not, or not in time."""
        faults: list[QanatError] = []
        await acknowledged({durable: None}, lambda _, fault: faults.append(fault), self._host.ack_timeouts, _DURABLE_S)
        if faults:
            raise faults[0]

    async def _send(self, target: TopicPartition, batch: bytes) -> None:
        image = self._host.metadata.image
        leader = image.state(image.topics[target.topic], target.partition).leader
        data = [
            TopicProduceData(target.topic, partition_data=[PartitionProduceData(target.partition, memoryview(batch))])
        ]
        request = ProduceRequest(None, -1, round(_CALL_S * 1000), data)
        answer = await self._host.peers.call(leader, ApiKey.PRODUCE, request, _CALL_S, at_most=_BY_NAME)
        error = error_code(answer.responses[0].partition_responses[0].error_code)
        if error is not ErrorCode.NONE:
            raise UndeliverableError(f"{target}, led by broker {leader}, cannot be written: {error.name}")

    async def _records(self, partition: Partition, archiving: ArchivingRange) -> list[Record]:
        """The records themselves, as far as they are still there.

        Members have acquired them, so they are committed; a leader that has just been elected may not see that yet.
        """
        await partition.have_high_watermark()
        found: list[Record] = []
        yielder = CooperativeYield()
        offset, end_offset = max(archiving.first_offset, partition.log.log_start_offset), archiving.last_offset + 1
        while offset < end_offset:
            try:
                part = await partition.read(offset, _READ_BYTES, partition.log.high_watermark)
            except OffsetOutOfRangeError:
                break
            async for batch in yielder.over(one for view in part.views() for one in split_batches(view)):
                header = read_header(batch)
                if header.base_offset < end_offset and not header.is_control:
                    found += [
                        record
                        for record in decode_records(batch, _DECODED_BYTES_MAX)
                        if offset <= record.offset < end_offset
                    ]
            if part.next_offset <= offset:
                break
            offset = part.next_offset
        return found


def _letter(record: Record, number: int, led: LedSharePartition, archiving: ArchivingRange) -> Record:
    origin = Origin(
        led.partition.at.topic,
        led.key.partition,
        record.offset,
        archiving.cause,
        led.key.group_id,
        archiving.delivery_count,
        record.timestamp if record.timestamp >= 0 else None,
    )
    return Record(number, record.timestamp, record.key, record.value, (*record.headers, *origin.headers()))

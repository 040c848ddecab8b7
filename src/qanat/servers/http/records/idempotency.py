"""Idempotency keys: a request that is repeated under its key writes nothing and gets its first answer.

The answer is noted in `__http_idempotency`, in the same transaction as the records, so that both exist or neither. A
key belongs to a principal and to one partition of that topic, which is a shard: a shard writes its requests one
transaction after the other, under a transactional id of its own.

Rule 1: a node that starts with a shard first initializes its transactional id, which ends an open transaction, and then
        reads the notes to their end. A fenced node does both again before it answers.
Rule 2: a request under a key is written as a whole or not at all.
Rule 3: an answered record can be read: readers of committed records see it before the answer leaves.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from qanat.broker.replicas.parked_fetch import Wake, wait_for_records
from qanat.broker.replicas.partition import Partition
from qanat.broker.runtime.detached_work import to_the_end
from qanat.cluster.rejection import Rejection
from qanat.cluster.topics import CreateTopic
from qanat.connection.deadline import Deadline
from qanat.connection.faults import RETRIABLE
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.model.placement import coordinator_partition
from qanat.model.topic_names import IDEMPOTENCY_TOPIC as TOPIC
from qanat.servers.http.problems import Problem, problem_of
from qanat.servers.http.records.batching import batches_of, encoded
from qanat.servers.http.records.partition_reads import EARLIEST, LATEST
from qanat.servers.http.records.produce_results import ProducedOrNot, many_reply, one_reply
from qanat.servers.http.records.record_parsing import ProducerRecord, now_ms
from qanat.servers.http.records.transactional_producer import FENCED, TransactionalProducer
from qanat.servers.http.reply import Reply

if TYPE_CHECKING:
    from qanat.servers.http.kafka_gateway import KafkaGateway
    from qanat.servers.http.records.partition_reads import PartitionReads
    from qanat.servers.http.settings import HttpSettings

_SHARDS = 16
_REPLICAS = 3
_HOUR_MS = 60 * 60 * 1000
_LOAD_BYTES = 1024 * 1024
_PAUSE_S = 0.1
_MOVING = (RETRIABLE - {ErrorCode.NOT_ENOUGH_REPLICAS}) | {
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.BROKER_NOT_AVAILABLE,
}
"""Errors that may pass in a moment; too few replicas are reported at once, as without a key."""
_VISIBLE_S = 5.0


class Note(msgspec.Struct, frozen=True, array_like=True):
    """A key's first answer."""

    key: str
    fingerprint: str
    """Of the request's body: another body under the same key is a mistake."""
    at_ms: int
    status: int
    body: bytes


class Job(msgspec.Struct, frozen=True):
    """Records to write under a key; they are prepared once it is known that they are not written yet."""

    key: str
    fingerprint: str
    prepare: Callable[[], Awaitable[Sequence[ProducerRecord]]]
    is_single: bool


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(Note).decode


def fingerprint_of(*parts: bytes) -> str:
    return hashlib.blake2b(b"\0".join(parts), digest_size=16).hexdigest()


class Idempotency:
    """The idempotency keys, by shard."""

    def __init__(self, gateway: KafkaGateway, reads: PartitionReads, settings: HttpSettings) -> None:
        self._gateway = gateway
        self._reads = reads
        self._settings = settings
        self._shards: dict[int, Shard] = {}
        self._making = asyncio.Lock()

    async def answer(self, job: Job) -> Reply:
        """The first answer of this key: now, or the noted one."""
        await self._make_topic()
        number = coordinator_partition(job.key, len(self._gateway.broker.metadata.image.topics[TOPIC].partitions))
        shard = self._shards.get(number)
        if shard is None:
            shard = self._shards[number] = Shard(self._gateway, self._reads, self._settings, number)
        # It runs to its end when the client disconnects: a repetition finds the answer.
        return await to_the_end(self._gateway.broker.park(shard.answer(job)))

    async def _make_topic(self) -> None:
        broker = self._gateway.broker
        if TOPIC in broker.metadata.image.topics:
            return
        async with self._making:
            if TOPIC in broker.metadata.image.topics:
                return
            kept_ms = self._settings.http_idempotency_retention_ms + _HOUR_MS
            request = CreateTopic(
                TOPIC,
                broker.metadata_changes.new_topic_id(),
                partitions=_SHARDS,
                replication_factor=min(_REPLICAS, len(broker.metadata.image.brokers)),
                configs={
                    "cleanup.policy": "delete",
                    "retention.ms": str(kept_ms),
                    "segment.ms": str(_HOUR_MS),
                    "max.message.bytes": str(self._settings.http_request_max_bytes),
                },
                is_internal=True,
            )
            outcome = await broker.metadata_changes.create_topic(request)
            if isinstance(outcome, Rejection) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise problem_of(outcome.code, "idempotency keys cannot be kept now", outcome.message)


class Shard:
    """The keys of one partition, one request after the other."""

    def __init__(self, gateway: KafkaGateway, reads: PartitionReads, settings: HttpSettings, number: int) -> None:
        self._gateway = gateway
        self._reads = reads
        self._settings = settings
        self._at = TopicPartition(TOPIC, number)
        self._notes: dict[int, dict[bytes, int]] = {}
        """The offset of each key's note, by hour. A note itself is read when its request is repeated."""
        self._position = 0
        self._is_owner = False
        self._lock = asyncio.Lock()
        self._transactions = TransactionalProducer(gateway, f"__http-idempotency-{number}")

    async def answer(self, job: Job) -> Reply:
        deadline = Deadline.after(self._gateway.timeout_s)
        records: Sequence[ProducerRecord] | None = None
        async with self._lock:
            while True:
                try:
                    note = await self._noted(job)
                    if note is None and records is not None:
                        return await self._write(job, records)
                except (Problem, QanatError) as fault:
                    code = fault.error if isinstance(fault, Problem) else fault.code
                    await self._reset(code)
                    # Fenced, or a leader moved in between: the notes show the outcome.
                    if (code not in FENCED and code not in _MOVING) or deadline.left_seconds <= _PAUSE_S:
                        raise
                    await deadline.pause(_PAUSE_S)
                    continue
                if note is not None:
                    return _repeated(note, job)
                records = await job.prepare()

    async def _noted(self, job: Job) -> Note | None:
        """The note of a key, as of now."""
        if not self._is_owner:
            await self._load()
        self._forget_old()
        digest = _digest(job.key)
        for notes in self._notes.values():
            offset = notes.get(digest)
            if offset is not None and (note := await self._read(offset)) is not None and note.key == job.key:
                is_old = note.at_ms < now_ms() - self._settings.http_idempotency_retention_ms
                return None if is_old else note
        return None

    async def _read(self, offset: int) -> Note | None:
        """The note at a committed offset; None where it is already deleted."""
        position = {self._at.partition: offset}
        own_caller = self._gateway.own_caller
        # Read uncommitted: the note is committed, even if its marker has not arrived.
        (row,) = await self._reads.fetch(own_caller, TOPIC, position, max_bytes=1, wait_ms=0, is_committed=False)
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return None
        if row.error_code:
            raise problem_of(row.error_code, "idempotency keys cannot be read now")
        batches = self._reads.opened(row, offset)
        while (records := await batches.next()) is not None:
            for at, _, raw in records:
                if at == offset and raw[4] is not None:
                    return _DECODE(raw[4])
        raise problem_of(ErrorCode.OFFSET_NOT_AVAILABLE, "idempotency keys cannot be read now")

    def _remember(self, note: Note, offset: int) -> None:
        self._notes.setdefault(note.at_ms // _HOUR_MS, {})[_digest(note.key)] = offset

    async def _load(self) -> None:
        """Fence the previous owner, then read the notes to their end.

        The end comes from ListOffsets: a new leader answers it only when it knows what its predecessor acknowledged,
        while a fetch would find less. The previous owner is fenced and its transaction is over, so all its notes lie
        before this end.
        """
        await self._transactions.init()
        reads, own_caller = self._reads, self._gateway.own_caller
        number = self._at.partition
        end_offset = (await reads.offsets_at(own_caller, TOPIC, [number], LATEST))[number]
        if self._position > end_offset:
            # The notes were lost: a replica without them was elected.
            self._notes, self._position = {}, 0
        while self._position < end_offset:
            (row,) = await reads.fetch(
                own_caller, TOPIC, {number: self._position}, max_bytes=_LOAD_BYTES, wait_ms=0, is_committed=True
            )
            if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and row.log_start_offset != self._position:
                self._position = (await reads.offsets_at(own_caller, TOPIC, [number], EARLIEST))[number]
                continue
            if row.error_code:
                raise problem_of(row.error_code, "idempotency keys cannot be read now")
            before = self._position
            batches = reads.opened(row, before)
            while (records := await batches.next()) is not None:
                for offset, _, raw in records:
                    if raw[4] is not None:
                        self._remember(_DECODE(raw[4]), offset)
            self._position = batches.next_offset
            if self._position == before:
                raise problem_of(ErrorCode.OFFSET_NOT_AVAILABLE, "idempotency keys cannot be read now")
        self._is_owner = True

    def _forget_old(self) -> None:
        oldest = (now_ms() - self._settings.http_idempotency_retention_ms) // _HOUR_MS
        for hour in [hour for hour in self._notes if hour < oldest]:
            del self._notes[hour]

    async def _reset(self, code: ErrorCode | None) -> None:
        """Abort the transaction; the next request loads the shard again."""
        was_ours, self._is_owner = self._is_owner, False
        if was_ours and code not in FENCED:
            try:
                await self._transactions.end(is_committed=False)
            except (Problem, QanatError):
                return  # The next request initializes the id, which ends it.

    async def _write(self, job: Job, records: Sequence[ProducerRecord]) -> Reply:
        offsets = await self._append(records)
        places = [(record.partition, offset) for record, offset in zip(records, offsets, strict=True)]
        reply = one_reply(*places[0]) if job.is_single else many_reply([ProducedOrNot(*place) for place in places], 0)
        note = Note(job.key, job.fingerprint, now_ms(), reply.status, reply.body)
        offset = await self._transactions.write_note(self._at, encoded([_noted(note)]))
        await self._transactions.end(is_committed=True)
        self._remember(note, offset)
        ends = {
            TopicPartition(record.topic, record.partition): last
            for record, (_, last) in zip(records, places, strict=True)
        }
        ends[self._at] = offset
        await asyncio.gather(*(self._wait_until_visible(at, last) for at, last in ends.items()))
        return reply

    async def _append(self, records: Sequence[ProducerRecord]) -> list[int]:
        offsets = [-1] * len(records)
        rows: dict[TopicPartition, list[int]] = {}
        for number, record in enumerate(records):
            rows.setdefault(TopicPartition(record.topic, record.partition), []).append(number)
        for at, numbers in rows.items():
            for first, end in batches_of(numbers, records):
                chosen = numbers[first:end]
                base = await self._transactions.write(at, encoded([records[number] for number in chosen]))
                for offset, number in enumerate(chosen, base):
                    offsets[number] = offset
        return offsets

    async def _wait_until_visible(self, at: TopicPartition, offset: int) -> None:
        """Wait until readers of committed records see a record; where another broker leads, they wait themselves."""
        partition = self._gateway.broker.lookup.led(at.topic, at.partition)
        if not isinstance(partition, Partition):
            return
        shown = _Shown(partition, offset)
        if not shown.is_due():
            await wait_for_records(shown, _VISIBLE_S)


class _Shown:
    """A record that readers of committed records are to see: what a parked fetch waits for."""

    def __init__(self, partition: Partition, offset: int) -> None:
        self._partition = partition
        self._offset = offset

    def wait_for_more(self, wake: Wake) -> None:
        self._partition.wait_for_more(wake)

    def stop_waiting(self, wake: Wake) -> None:
        self._partition.stop_waiting(wake)

    def is_due(self) -> bool:
        return self._partition.is_retired or self._partition.log.last_stable_offset > self._offset


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode(), digest_size=16).digest()


def _repeated(note: Note, job: Job) -> Reply:
    if note.fingerprint != job.fingerprint:
        raise Problem(
            422, "this Idempotency-Key was used for another request: send the same body again, or use a new key"
        )
    return Reply(note.status, note.body, headers=((b"idempotency-replayed", b"true"),))


def _noted(note: Note) -> ProducerRecord:
    return ProducerRecord(TOPIC, note.key.encode(), _ENCODE(note), (), note.at_ms, 0)

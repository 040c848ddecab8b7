"""Idempotency keys: a request that is sent again under the same key writes nothing and gets its first answer.

The answer is noted in `__http_idempotency`, in the same transaction as the records, so that either both are there or
neither. A key belongs to a caller (its principal) and to one partition of that topic, which is a shard: a shard's
requests are written one transaction after the other, under a transactional id of its own.

Rule 1: whoever begins with a shard takes its transactional id over first, which ends what was left open, and then
        reads the notes to their end. Whoever is fenced does both again before it answers.
Rule 2: a request under a key is written as a whole or not at all.
Rule 3: what is answered can be read: readers of committed records see the records before the answer goes out.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from qanat.broker.replicas.partition import Partition
from qanat.broker.runtime.detached_work import to_the_end
from qanat.cluster.rejection import Rejection
from qanat.cluster.topic_names import IDEMPOTENCY_TOPIC as TOPIC
from qanat.cluster.topics import CreateTopic
from qanat.connection.deadline import Deadline
from qanat.connection.faults import RETRIABLE
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.model.placement import coordinator_partition
from qanat.servers.http.exchange import Reply
from qanat.servers.http.problems import Problem, problem_of
from qanat.servers.http.records.batching import batches_of, encoded
from qanat.servers.http.records.partition_reads import EARLIEST, LATEST
from qanat.servers.http.records.produce_results import ProducedOrNot, told_many, told_one
from qanat.servers.http.records.record_json import records_of
from qanat.servers.http.records.record_parsing import Outgoing, now_ms
from qanat.servers.http.records.transactional_producer import FENCED, Transactions

if TYPE_CHECKING:
    from qanat.servers.http.context import HttpContext

_SHARDS = 16
_REPLICAS = 3
_HOUR_MS = 60 * 60 * 1000
_LOAD_BYTES = 1024 * 1024
_PAUSE_S = 0.1
_MOVING = (RETRIABLE - {ErrorCode.NOT_ENOUGH_REPLICAS}) | {
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.BROKER_NOT_AVAILABLE,
}
"""Another moment may bring another answer; too few replicas are told at once, as to those who write without a key."""
_VISIBLE_S = 5.0


class Note(msgspec.Struct, frozen=True, array_like=True):
    """A key's first answer."""

    key: str
    fingerprint: str
    """Of the request's body: another request under the same key is a mistake."""
    at_ms: int
    status: int
    body: bytes


class Job(msgspec.Struct, frozen=True):
    """Records to be written under a key; they are made ready when it is known that they are not there yet."""

    key: str
    fingerprint: str
    make_ready: Callable[[], Awaitable[Sequence[Outgoing]]]
    is_single: bool


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(Note).decode


def fingerprint_of(*parts: bytes) -> str:
    return hashlib.blake2b(b"\0".join(parts), digest_size=16).hexdigest()


class Idempotency:
    """All keys."""

    def __init__(self, door: HttpContext) -> None:
        self._door = door
        self._shards: dict[int, Shard] = {}
        self._making = asyncio.Lock()

    async def answer(self, job: Job) -> Reply:
        """The first answer of this key: now, or the one that was noted."""
        await self._make_topic()
        number = coordinator_partition(job.key, len(self._door.broker.metadata.image.topics[TOPIC].partitions))
        shard = self._shards.get(number)
        if shard is None:
            shard = self._shards[number] = Shard(self._door, number)
        # It goes on to its end when the caller hangs up: its repeat will find the answer.
        return await to_the_end(self._door.broker.park(shard.answer(job)))

    async def _make_topic(self) -> None:
        broker = self._door.broker
        if TOPIC in broker.metadata.image.topics:
            return
        async with self._making:
            if TOPIC in broker.metadata.image.topics:
                return
            kept_ms = self._door.settings.http_idempotency_retention_ms + _HOUR_MS
            request = CreateTopic(
                TOPIC,
                broker.metadata_changes.new_topic_id(),
                partitions=_SHARDS,
                replication_factor=min(_REPLICAS, len(broker.metadata.image.brokers)),
                configs={
                    "cleanup.policy": "delete",
                    "retention.ms": str(kept_ms),
                    "segment.ms": str(_HOUR_MS),
                    "max.message.bytes": str(self._door.settings.http_request_max_bytes),
                },
                is_internal=True,
            )
            outcome = await broker.metadata_changes.create_topic(request)
            if isinstance(outcome, Rejection) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise problem_of(outcome.code, "idempotency keys cannot be kept now", outcome.message)


class Shard:
    """The keys of one partition, one request after the other."""

    def __init__(self, door: HttpContext, number: int) -> None:
        self._door = door
        self._at = TopicPartition(TOPIC, number)
        self._notes: dict[int, dict[bytes, int]] = {}
        """By the hour of their time: where the note of each key lies. Notes themselves are read when a repeat comes."""
        self._position = 0
        self._is_ours = False
        self._lock = asyncio.Lock()
        self._transactions = Transactions(door.asking, f"__http-idempotency-{number}")

    async def answer(self, job: Job) -> Reply:
        deadline = Deadline.after(self._door.asking.timeout_s)
        records: Sequence[Outgoing] | None = None
        async with self._lock:
            while True:
                try:
                    note = await self._noted(job)
                    if note is None and records is not None:
                        return await self._write(job, records)
                except (Problem, QanatError) as fault:
                    code = fault.error if isinstance(fault, Problem) else fault.code
                    await self._give_up(code)
                    # Fenced, or a leader moved in the middle of it: what became of it is seen in the notes.
                    if (code not in FENCED and code not in _MOVING) or deadline.left_seconds <= _PAUSE_S:
                        raise
                    await deadline.pause(_PAUSE_S)
                    continue
                if note is not None:
                    return _repeated(note, job)
                records = await job.make_ready()

    async def _noted(self, job: Job) -> Note | None:
        """What was noted of a key, as of now."""
        if not self._is_ours:
            await self._take_over()
        self._forget_old()
        digest = _digest(job.key)
        for notes in self._notes.values():
            offset = notes.get(digest)
            if offset is not None and (note := await self._read(offset)) is not None and note.key == job.key:
                is_old = note.at_ms < now_ms() - self._door.settings.http_idempotency_retention_ms
                return None if is_old else note
        return None

    async def _read(self, offset: int) -> Note | None:
        """The note at an offset that was committed; None where it is too old to be there any more."""
        position = {self._at.partition: offset}
        nobody = self._door.asking.nobody
        # Not only what is committed: we know that it is, whether or not its marker has come.
        (row,) = await self._door.reading.fetch(nobody, TOPIC, position, max_bytes=1, wait_ms=0, is_committed=False)
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return None
        if row.error_code:
            raise problem_of(row.error_code, "idempotency keys cannot be read now")
        for at, _, raw in records_of(row, offset):
            if at == offset and raw is not None and raw[4] is not None:
                return _DECODE(raw[4])
        raise problem_of(ErrorCode.OFFSET_NOT_AVAILABLE, "idempotency keys cannot be read now")

    def _remember(self, note: Note, offset: int) -> None:
        self._notes.setdefault(note.at_ms // _HOUR_MS, {})[_digest(note.key)] = offset

    async def _take_over(self) -> None:
        """Fence whoever was here before, then read what was noted, to the end.

        The end is the one that ListOffsets tells: a leader that has just been elected does not answer that before it
        knows what its predecessor acknowledged, while a fetch would just find less. Whoever had the id before us is
        fenced, and its transaction is over, so all that it noted lies before this end.
        """
        await self._transactions.take_over()
        reading, nobody = self._door.reading, self._door.asking.nobody
        number = self._at.partition
        end_offset = (await reading.offsets_at(nobody, TOPIC, [number], LATEST))[number]
        if self._position > end_offset:
            # What was read is not there any more: a replica that lacked it was elected.
            self._notes, self._position = {}, 0
        while self._position < end_offset:
            (row,) = await reading.fetch(
                nobody, TOPIC, {number: self._position}, max_bytes=_LOAD_BYTES, wait_ms=0, is_committed=True
            )
            if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and row.log_start_offset != self._position:
                self._position = (await reading.offsets_at(nobody, TOPIC, [number], EARLIEST))[number]
                continue
            if row.error_code:
                raise problem_of(row.error_code, "idempotency keys cannot be read now")
            before = self._position
            for offset, _, raw in records_of(row, before):
                if raw is None:
                    self._position = offset
                elif raw[4] is not None:
                    self._remember(_DECODE(raw[4]), offset)
            if self._position == before:
                raise problem_of(ErrorCode.OFFSET_NOT_AVAILABLE, "idempotency keys cannot be read now")
        self._is_ours = True

    def _forget_old(self) -> None:
        oldest = (now_ms() - self._door.settings.http_idempotency_retention_ms) // _HOUR_MS
        for hour in [hour for hour in self._notes if hour < oldest]:
            del self._notes[hour]

    async def _give_up(self, code: ErrorCode | None) -> None:
        """Drop what was begun; whoever comes next looks at everything anew."""
        was_ours, self._is_ours = self._is_ours, False
        if was_ours and code not in FENCED:
            try:
                await self._transactions.end(is_committed=False)
            except (Problem, QanatError):
                return  # The next one takes the id over, which ends it.

    async def _write(self, job: Job, records: Sequence[Outgoing]) -> Reply:
        offsets = await self._append(records)
        places = [(record.partition, offset) for record, offset in zip(records, offsets, strict=True)]
        reply = told_one(*places[0]) if job.is_single else told_many([ProducedOrNot(*place) for place in places], 0)
        note = Note(job.key, job.fingerprint, now_ms(), reply.status, reply.body)
        offset = await self._transactions.note(self._at, encoded([_noted(note)]))
        await self._transactions.end(is_committed=True)
        self._remember(note, offset)
        ends = {
            TopicPartition(record.topic, record.partition): last
            for record, (_, last) in zip(records, places, strict=True)
        }
        ends[self._at] = offset
        await asyncio.gather(*(self._become_visible(at, last) for at, last in ends.items()))
        return reply

    async def _append(self, records: Sequence[Outgoing]) -> list[int]:
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

    async def _become_visible(self, at: TopicPartition, offset: int) -> None:
        """Wait until readers of committed records see a record; where somebody else leads, they wait themselves."""
        partition = self._door.broker.lookup.led(at.topic, at.partition)
        if not isinstance(partition, Partition):
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _VISIBLE_S
        while partition.log.last_stable_offset <= offset and loop.time() < deadline:
            seen = asyncio.Event()
            partition.wait_for_more(seen.set)
            try:
                async with asyncio.timeout_at(deadline):
                    await seen.wait()
            except TimeoutError:
                return
            finally:
                partition.stop_waiting(seen.set)


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode(), digest_size=16).digest()


def _repeated(note: Note, job: Job) -> Reply:
    if note.fingerprint != job.fingerprint:
        raise Problem(
            422, "this Idempotency-Key was used for another request: send the same body again, or use a new key"
        )
    return Reply(note.status, note.body, headers=((b"idempotency-replayed", b"true"),))


def _noted(note: Note) -> Outgoing:
    return Outgoing(TOPIC, note.key.encode(), _ENCODE(note), (), note.at_ms, 0)

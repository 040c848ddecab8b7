"""Children that send records up: for each partition of an outbox a transactional producer, and the mark.

Bytes of an upload go to the leader of the target partition as a staged file (docs/decisions/0015-staged-uploads.md),
which promises nothing. A named upload is one transaction of this cluster: the file's name to the leader, the mark to
the group's coordinator, the end. So no link holds the last stable offset.

Rule 1: `edge.up_flow` decides what a named upload may do; one at a time for each partition of an outbox.
Rule 2: whatever fails, the session is forgotten, and the child asks for the mark again: initializing the transactional
        id ends what is open, and the mark is read after that.
Rule 3: a step goes on when the child's connection ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from weakref import WeakValueDictionary

from qanat.connection.batch_producer import BatchProducer, produce
from qanat.connection.committed import committed_positions
from qanat.connection.deadline import Deadline
from qanat.connection.faults import RefusedError
from qanat.connection.pipelined_producer import ACKS_ALL
from qanat.edge.up_flow import Already, Mark, Named, RefuseUpload, begin, decide
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.servers.http.gateway_cluster import GatewayCluster
from qanat.servers.http.problems import Problem
from qanat.wire.staged import staged_batch
from qanat.wire.staged_upload import DROPPED, upload_batch
from qanat.wire.up_messages import BeginUp, NamedUpload, UpBegun, UpRecords, UpStream, UpTaken, mark_note, marked_topic

if TYPE_CHECKING:
    from qanat.servers.http.kafka_gateway import KafkaGateway

TRANSACTION_MS = 30_000
SESSIONS_MAX = 20_000
"""Sessions that are kept, the latest ones; a child whose session was forgotten asks for the mark again."""
_ABORTED_S = 5.0
_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
_Answer = TypeVar("_Answer")


class _Session:
    """One process of a child, for one partition of its outbox."""

    def __init__(self, producer: BatchProducer, mark: Mark) -> None:
        self.producer = producer
        self.mark = mark


class UpSessions:
    """The sessions of this broker."""

    def __init__(self, gateway: KafkaGateway) -> None:
        self._gateway = gateway
        self._cluster = GatewayCluster(gateway, gateway.own_caller)
        self._sessions: dict[str, _Session] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.appended_records = self.appended_bytes = 0

    def __len__(self) -> int:
        return len(self._sessions)

    async def begin(self, asked: BeginUp, topic_id: str) -> UpBegun:
        """The mark, for a process of a child that has started; the one before is fenced."""
        return await self._to_end(asked.stream.name, lambda: self._begin(asked, topic_id))

    async def take(self, head: UpRecords, content: memoryview, topic_id: str) -> UpTaken:
        """Store bytes of an upload, then append it where it is named."""
        named = head.named
        size = 0 if named is not None and not named.records else await self._store(head, content)
        if named is None:
            return UpTaken(size)
        mark = await self._to_end(head.stream.name, lambda: self._append(head, named, topic_id, size))
        return UpTaken(size, mark)

    async def _to_end(self, name: str, step: Callable[[], Coroutine[Any, Any, _Answer]]) -> _Answer:
        """Carry a step out, after those before it (rule 3)."""
        lock = self._locks.setdefault(name, asyncio.Lock())

        async def alone() -> _Answer:
            async with lock:
                return await step()

        task = self._gateway.broker.park(alone())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # The child may be gone.
        return await asyncio.shield(task)

    async def _begin(self, asked: BeginUp, topic_id: str) -> UpBegun:
        stream, deadline = asked.stream, self._cluster.deadline()
        await self._forget(stream.name)
        producer = await BatchProducer.transactional(self._cluster, stream.name, TRANSACTION_MS, deadline)
        at = TopicPartition(stream.target, 0)
        stored = await committed_positions(self._cluster, stream.name, deadline, only=[at], is_stable=True)
        found = stored.get(at)
        topic = None if found is None else marked_topic(found.metadata)
        mark = None if found is None or topic is None or asked.is_resent else Mark(topic, found.offset, 0)
        begun = begin(mark, topic_id, asked.base, asked.settled)
        mark = Mark(topic_id, begun.end, producer.identity)
        self._sessions[stream.name] = _Session(producer, mark)
        while len(self._sessions) > SESSIONS_MAX:
            await self._forget(next(iter(self._sessions)))
        return UpBegun(topic_id, mark.end, mark.epoch)

    async def _forget(self, name: str) -> None:
        session = self._sessions.pop(name, None)
        if session is not None:
            await session.producer.close()

    # Records

    def _partition(self, stream: UpStream) -> int:
        """Where a partition of an outbox goes: always to the same partition of the target, so that order is kept."""
        topic = self._gateway.broker.metadata.image.topics.get(stream.target)
        return stream.partition % (1 if topic is None else len(topic.partitions))

    async def _store(self, head: UpRecords, content: memoryview) -> int:
        batch = upload_batch(f"{head.stream.folder}/{head.file}", head.position, [content])
        return await self._to_leader(head.stream, batch, self._cluster.deadline())

    async def _to_leader(self, stream: UpStream, batch: bytearray, deadline: Deadline) -> int:
        number = self._partition(stream)
        return (await produce(self._cluster, stream.target, {number: batch}, ACKS_ALL, deadline))[number]

    async def _append(self, head: UpRecords, said: NamedUpload, topic_id: str, size: int) -> int:
        """Append an upload and move the mark; returns the mark."""
        name = head.stream.name
        session = self._sessions.get(name)
        if session is None:
            raise Problem(409, "this broker does not know where the outbox stands: begin again")
        decided = decide(session.mark, Named(said.topic_id, said.first, said.end, said.epoch), topic_id)
        if isinstance(decided, RefuseUpload):
            if decided.is_fenced:
                _fenced()
            end = None if decided.mark is None else decided.mark.end
            raise Problem(409, f"the records come from {said.first} on, the mark is {end}: begin again")
        if isinstance(decided, Already):
            with suppress(QanatError):
                batch = upload_batch(f"{head.stream.folder}/{head.file}", DROPPED)
                await self._to_leader(head.stream, batch, self._cluster.deadline())
            return decided.mark.end
        await self._transact(session, head, said)
        session.mark = decided.mark
        self._sessions[name] = self._sessions.pop(name)
        self.appended_records += said.records
        self.appended_bytes += size
        return decided.mark.end

    async def _transact(self, session: _Session, head: UpRecords, said: NamedUpload) -> None:
        """Records and mark in one transaction, which has ended when this returns."""
        stream, producer, deadline = head.stream, session.producer, self._cluster.deadline()
        try:
            if said.records:
                batch = staged_batch(f"{stream.folder}/{head.file}", said.records)
                await producer.send(stream.target, {self._partition(stream): batch}, deadline)
            note = mark_note(said.topic_id, said.first, said.end)
            mark = {TopicPartition(stream.target, 0): said.end}
            await producer.commit_offsets(stream.name, mark, deadline, metadata=note)
            topic = self._gateway.broker.metadata.image.topics.get(stream.target)
            if topic is None or topic.topic_id != said.topic_id:
                raise Problem(409, f"topic {stream.target} was deleted meanwhile: begin again")
            await producer.end(deadline, is_committed=True)
        except (QanatError, Problem, asyncio.CancelledError) as fault:
            self._sessions.pop(stream.name, None)
            if isinstance(fault, RefusedError) and fault.code in _FENCED:
                _fenced()
            with suppress(QanatError):
                await producer.end(Deadline.after(_ABORTED_S), is_committed=False)
            await producer.close()
            raise


def _fenced() -> NoReturn:
    raise Problem(
        409,
        "another process has begun to send the records of this outbox: where two machines run with copies of one data "
        "directory, stop one of them",
        error=ErrorCode.PRODUCER_FENCED,
    )

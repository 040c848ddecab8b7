"""Producers of callers that have whole batches and wait for each: Spark, the command line, redrives, push.

`pipelined_producer` sends, as for every producer; this waits. Records are sent until a deadline, however often that
takes: a caller that waits has no other limit.

Rule 1: a batch that a broker refused for good leaves no gap: the next one has its numbers.
Rule 2: after a batch of a transaction whose outcome is not certain, `end` can only abort: it takes a new epoch at the
        coordinator (KIP-360), so that a late request of the old one is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random

from qanat.connection.batch_pipeline import NONE, Pending
from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.faults import RefusedError
from qanat.connection.pipelined_producer import ACKS_ALL, ACKS_NONE, PipelinedProducer, PipelineLimits
from qanat.connection.producer_session import GroupMember, ProducerSession
from qanat.connection.topic_leaders import LeaderDirectory
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.wire.batch_header import read_header

REQUEST_BYTES = 4 * 1024 * 1024
"""Callers make rounds of batches of their own size: one request to a leader has all of a round."""
_LEADERS_AGE_S = 1.0
"""How long leaders are trusted: one that was replaced without knowing never acknowledges, and a deadline may be no
longer than the time after which it is given up."""
TURNS_TO_SOCKET = 6
"""Turns of the event loop until the request of a `send` in a task is written: for callers with work of their own."""
_FIRST_PAUSE_S = 0.02
"""A leader that stops in good order is replaced within a few of these, which double."""
_FINAL = frozenset({ErrorCode.CORRUPT_MESSAGE})
"""The batches come from elsewhere, and may have been changed on their way here: once more does not help."""


class BatchProducer:
    """Sends batches under an identity, or under none. Made by `idempotent`, `transactional`, or as it is."""

    def __init__(
        self,
        cluster: Cluster,
        session: ProducerSession | None = None,
        acks: int = ACKS_ALL,
        transaction_timeout_ms: int = 0,
    ) -> None:
        """Without a session, a batch whose acknowledgement was lost may be appended twice."""
        self._cluster = cluster
        self._session = session
        self._acks = acks
        self._timeout_ms = transaction_timeout_ms
        self._pipeline: PipelinedProducer | None = None
        self._is_certain = True
        """Whether the outcome of every batch since the last `renew` is known."""

    @staticmethod
    async def idempotent(cluster: Cluster, deadline: Deadline) -> BatchProducer:
        return BatchProducer(cluster, await ProducerSession.idempotent(cluster, deadline))

    @staticmethod
    async def transactional(
        cluster: Cluster, transactional_id: str, timeout_ms: int, deadline: Deadline
    ) -> BatchProducer:
        """Initialize the transactional id: its former producer is fenced, its open transaction is ended."""
        session = await ProducerSession.transactional(cluster, transactional_id, timeout_ms, deadline)
        return BatchProducer(cluster, session, transaction_timeout_ms=timeout_ms)

    async def close(self) -> None:
        """Give up what is on its way."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            await pipeline.close()

    @property
    def identity(self) -> int:
        """Producer id and epoch as one number: another for every process that had the transactional id."""
        return self._transaction.producer_id << 16 | self._transaction.epoch

    # Batches

    async def send(
        self, topic: str, batches: Mapping[int, bytearray | memoryview], deadline: Deadline
    ) -> dict[int, int]:
        """Append a batch to each of these partitions; returns base offsets, none without acknowledgements.

        Several calls may wait at a time, for different partitions. Headers are filled in. Where several batches fail,
        the first one's fault is raised; others may be written.
        """
        pipeline = await self._opened(deadline)
        outcomes = {
            number: _Outcome(TopicPartition(topic, number), batch, deadline) for number, batch in batches.items()
        }
        for one in outcomes.values():
            pipeline.add(one.pending)
        try:
            await asyncio.gather(*(one.done for one in outcomes.values()))
        except asyncio.CancelledError:
            self._is_certain = False
            await self.close()
            raise
        failed = [one.pending for one in outcomes.values() if one.pending.fault is not None]
        if any(one.sequence != NONE or one.may_be_written for one in failed):
            self._is_certain = False
        for pending in failed:
            assert pending.fault is not None
            raise pending.fault
        return {} if self._acks == ACKS_NONE else {number: one.done.result() for number, one in outcomes.items()}

    async def _opened(self, deadline: Deadline) -> PipelinedProducer:
        """The pipeline; a new one has an identity of which no broker knows a batch that we do not know."""
        if self._pipeline is None:
            if self._session is not None and not self._is_certain:
                await self._identify_anew(deadline)
            limits = PipelineLimits(
                acks=self._acks,
                request_timeout_s=self._cluster.timeout_s,
                request_bytes=REQUEST_BYTES,
                final=_FINAL,
                retry_backoff_s=_FIRST_PAUSE_S,
            )
            leaders = LeaderDirectory(self._cluster, _LEADERS_AGE_S)
            # Drawn by the id: producers do not come back together, and a simulated one repeats itself.
            jitter = Random(0 if self._session is None else self._session.producer_id).random
            self._pipeline = PipelinedProducer(self._cluster, limits, leaders, _ignore, jitter)
            self._pipeline.identify(self._session)
        return self._pipeline

    async def _identify_anew(self, deadline: Deadline) -> None:
        session = self._session
        assert session is not None
        if session.transactional_id is None:
            self._session = await ProducerSession.idempotent(self._cluster, deadline)
        else:
            await session.renew(self._timeout_ms, deadline)
        self._is_certain = True

    # Transactions

    async def renew(self, timeout_ms: int, deadline: Deadline) -> None:
        """`ProducerSession.renew`; sequence numbers start anew."""
        await self.close()
        await self._transaction.renew(timeout_ms, deadline)
        self._is_certain = True

    async def initialize(self, timeout_ms: int, deadline: Deadline) -> None:
        """Initialize the transactional id again: whichever producer has it now is fenced."""
        await self.close()
        name = self._transaction.transactional_id or ""
        self._session = await ProducerSession.transactional(self._cluster, name, timeout_ms, deadline)
        self._is_certain = True

    async def commit_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        deadline: Deadline,
        *,
        metadata: str | Mapping[TopicPartition, str] = "",
    ) -> None:
        """Make a group's offsets part of the transaction; `metadata` is a note stored with each, or one for each."""
        await self._transaction.commit_offsets(GroupMember(group), offsets, deadline, metadata=metadata)

    async def end(self, deadline: Deadline, *, is_committed: bool) -> None:
        """Commit everything since the last end, or abort it."""
        if self._is_certain:
            await self._transaction.end(deadline, is_committed=is_committed)
            return
        if is_committed:
            raise RefusedError(
                ErrorCode.INVALID_TXN_STATE,
                f"the transaction of {self._transaction.transactional_id} has a batch that failed: abort it",
            )
        await self.renew(self._timeout_ms, deadline)

    @property
    def _transaction(self) -> ProducerSession:
        assert self._session is not None, "a producer without an identity has no transactions"
        return self._session


async def produce(
    cluster: Cluster, topic: str, batches: Mapping[int, bytearray | memoryview], acks: int, deadline: Deadline
) -> dict[int, int]:
    """Append one batch to each partition, once and without an identity; returns their base offsets, none with acks=0.

    A batch whose acknowledgement was lost may be appended twice: an idempotent `BatchProducer` avoids that.
    """
    producer = BatchProducer(cluster, acks=acks)
    try:
        return await producer.send(topic, batches, deadline)
    finally:
        await producer.close()


class _Outcome:
    """One batch, and the future of its base offset."""

    def __init__(self, at: TopicPartition, batch: bytearray | memoryview, deadline: Deadline) -> None:
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.pending = Pending(at, batch, read_header(batch).record_count, deadline.at, self._settle)

    def _settle(self, pending: Pending, base_offset: int, appended_ms: int) -> None:
        if not self.done.done():
            self.done.set_result(base_offset)


def _ignore() -> None:
    """Nothing waits for room: callers wait for each batch."""

"""Idempotent and transactional producers of callers that have whole batches and wait for each: Spark, the command line.

One batch of a partition is in flight at a time, so that sequence numbers cannot overtake each other. A caller that
pipelines has `pipelined_producer`; both stand on `producer_session`.
"""

from __future__ import annotations

from collections.abc import Mapping

from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.producer_session import GroupMember, ProducerSession
from qanat.connection.producing import produce
from qanat.model.ids import TopicPartition
from qanat.wire.records import INT32_MAX, set_producer

ALL = -1


class Producer:
    """A producer id and epoch from the cluster. Made by `idempotent` or `transactional`."""

    def __init__(self, cluster: Cluster, session: ProducerSession) -> None:
        self._cluster = cluster
        self._session = session
        self._sequences: dict[TopicPartition, int] = {}

    @staticmethod
    async def idempotent(cluster: Cluster, deadline: Deadline) -> Producer:
        return Producer(cluster, await ProducerSession.idempotent(cluster, deadline))

    @staticmethod
    async def transactional(cluster: Cluster, transactional_id: str, timeout_ms: int, deadline: Deadline) -> Producer:
        """Initialize the transactional id: its former producer is fenced, its open transaction is ended."""
        return Producer(cluster, await ProducerSession.transactional(cluster, transactional_id, timeout_ms, deadline))

    async def renew(self, timeout_ms: int, deadline: Deadline) -> None:
        """`ProducerSession.renew`; sequence numbers start anew."""
        await self._session.renew(timeout_ms, deadline)
        self._sequences.clear()

    async def initialize(self, timeout_ms: int, deadline: Deadline) -> None:
        """Initialize the transactional id again: whichever producer has it now is fenced."""
        name = self._session.transactional_id or ""
        self._session = await ProducerSession.transactional(self._cluster, name, timeout_ms, deadline)
        self._sequences.clear()

    async def send(
        self, topic: str, batches: Mapping[int, bytearray | memoryview], deadline: Deadline, acks: int = ALL
    ) -> dict[int, int]:
        """Append a batch to each of these partitions; returns base offsets. The batches' headers are filled in."""
        session = self._session
        counts: dict[TopicPartition, int] = {}
        for number, batch in batches.items():
            at = TopicPartition(topic, number)
            sequence = self._sequences.get(at, 0)
            counts[at] = set_producer(
                batch,
                session.producer_id,
                session.epoch,
                sequence,
                is_transactional=session.transactional_id is not None,
            )
        if session.transactional_id is not None:
            await session.add(counts, deadline)
        offsets = await produce(self._cluster, topic, batches, acks, deadline, session.transactional_id)
        for at, count in counts.items():
            self._sequences[at] = (self._sequences.get(at, 0) + count) & INT32_MAX
        return offsets

    async def commit_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        deadline: Deadline,
        *,
        metadata: str | Mapping[TopicPartition, str] = "",
    ) -> None:
        """Make a group's offsets part of the transaction; `metadata` is a note stored with each, or one for each."""
        await self._session.commit_offsets(GroupMember(group), offsets, deadline, metadata=metadata)

    async def end(self, deadline: Deadline, *, is_committed: bool) -> None:
        """Commit everything since the last end, or abort it."""
        await self._session.end(deadline, is_committed=is_committed)

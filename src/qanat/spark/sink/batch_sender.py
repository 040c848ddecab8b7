"""Record batches on their way to the brokers: one of each partition at a time, the next made while others fly.

Nothing is copied on the way to the socket, given uvloop; asyncio's own loop joins what it is given. All of a task's
rounds are one run of the loop, which stands still while the next round is made: to start and end it for each cost a
tenth of a task's time, as measured.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import TYPE_CHECKING, TypeVar

from qanat.connection.cluster import Cluster
from qanat.connection.faults import RefusedError
from qanat.connection.producer import ALL, Producer
from qanat.connection.producing import produce
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import CorruptBatchError
from qanat.model.ids import TopicPartition
from qanat.spark.options.options import Access
from qanat.spark.reads.offset_lookup import cluster_of, loop_factory
from qanat.spark.sink.outgoing_columns import EncodedBatch, RowsError

if TYPE_CHECKING:
    from pyarrow import RecordBatch  # type: ignore[import-untyped]

    from qanat.spark.sink.local_ingest import LocalIngestFiles
    from qanat.spark.sink.row_batches import Encoder

Result = TypeVar("Result")

_log = logging.getLogger(__name__)

ROUND_BYTES = 2_000_000
"""A request's own cost counts less the larger it is; a larger one a broker would receive in fresh memory
(`wire.frames`)."""
FLYING_MAX = 2
"""Rounds on their way at one time, if they have no partition in common."""
PATIENCE_S = 15.0
"""How long a task waits for a cluster that it has not reached: a restart takes that long, a wrong address for ever."""


_NOT_TAKEN_OVER = (ErrorCode.RESOURCE_NOT_FOUND, ErrorCode.INVALID_RECORD)
"""Of a file: the broker cannot take it over as it is, or is too old to know of such things."""


class Rounds:
    """Gathers batches until one would be a partition's second, or there is enough to send.

    Half of the partitions are enough: the next round is for others then, and need not wait until this one has landed.
    """

    def __init__(self) -> None:
        self._batches: dict[TopicPartition, EncodedBatch] = {}
        self._size = 0
        self._partitions: set[TopicPartition] = set()
        """Those seen so far."""

    def full_before(self, batch: EncodedBatch) -> dict[TopicPartition, EncodedBatch] | None:
        """Take a batch in; what must be sent before it, if anything."""
        finished = None
        self._partitions.add(batch.at)
        is_enough = self._size + len(batch.batch) > ROUND_BYTES or 2 * len(self._batches) >= len(self._partitions)
        if batch.at in self._batches or is_enough:
            finished = self.rest()
        self._batches[batch.at] = batch
        self._size += len(batch.batch)
        return finished

    def rest(self) -> dict[TopicPartition, EncodedBatch]:
        finished, self._batches, self._size = self._batches, {}, 0
        return finished


class Sender:
    """A connection that batches are sent over by somebody without an event loop. Use it in a `with`."""

    def __init__(self, access: Access, patience_s: float = PATIENCE_S) -> None:
        self._runner = asyncio.Runner(loop_factory=loop_factory())
        self._cluster = cluster_of(access, patience_s)
        self._flying: list[tuple[set[TopicPartition], asyncio.Task[None]]] = []
        self.producer: Producer | None = None
        """Who sends; None for batches that nobody counts."""
        self.acks = ALL
        self.base_offsets: dict[TopicPartition, list[int]] | None = None
        """Where a producer's batches landed, in the order in which they were sent, for somebody who wants to know."""

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        async def close() -> None:
            for _, flying in self._flying:
                flying.cancel()
            await asyncio.gather(*(flying for _, flying in self._flying), return_exceptions=True)
            await self._cluster.__aexit__(None, None, None)

        self._runner.run(close())
        self._runner.close()

    def be_idempotent(self) -> None:
        self.producer = self._runner.run(Producer.idempotent(self._cluster, self._cluster.deadline()))

    def be_transactional(self, transactional_id: str, timeout_ms: int) -> Producer:
        found = self._runner.run(
            Producer.transactional(self._cluster, transactional_id, timeout_ms, self._cluster.deadline())
        )
        self.producer = found
        return found

    def run(self, work: Coroutine[object, object, Result]) -> Result:
        """Run a coroutine on this connection's loop."""
        return self._runner.run(work)

    @property
    def cluster(self) -> Cluster:
        return self._cluster

    async def prepare(self, encoder: Encoder, rows: RecordBatch) -> None:
        """Tell an encoder how many partitions the topics of these rows have.

        A topic is made if the brokers make topics on first use.
        """
        for topic in encoder.unknown_topics(rows):
            view = await self._cluster.topic(topic, self._cluster.deadline(), may_create=True)
            encoder.know(topic, len(view.leaders))

    def send_rows(self, rows: Iterable[RecordBatch], encoder: Encoder, near: LocalIngestFiles) -> int:
        """Encode and send in order and wait for all; how many rows there were.

        What is kept in files beside brokers is named to them at the end.
        """

        async def encoded() -> AsyncIterator[EncodedBatch]:
            for some in rows:
                await self.prepare(encoder, some)
                for batch in encoder.encode(some):
                    if not near.knows(batch.at):
                        await near.find(batch.at)
                    if not near.take(batch):
                        yield batch
            for file in near.close():
                for batch in file.batches():
                    yield batch

        return self._runner.run(self._send_each(encoded()))

    def send_all(self, batches: Iterable[EncodedBatch]) -> int:
        """The same with batches that are encoded already."""

        async def each() -> AsyncIterator[EncodedBatch]:
            for batch in batches:
                yield batch

        return self._runner.run(self._send_each(each()))

    async def _send_each(self, batches: AsyncIterator[EncodedBatch]) -> int:
        """Whatever goes wrong, nothing flies afterwards."""
        rounds, rows = Rounds(), 0
        try:
            async for batch in batches:
                rows += batch.rows
                finished = rounds.full_before(batch)
                if finished:
                    await self._launch(finished)
            await self._launch(rounds.rest())
            await self._land(len(self._flying))
        finally:
            await self._settle()
        return rows

    async def _launch(self, batches: dict[TopicPartition, EncodedBatch]) -> None:
        in_the_way = [number for number, (some, _) in enumerate(self._flying, 1) if not some.isdisjoint(batches)]
        await self._land(max(0, len(self._flying) + 1 - FLYING_MAX, *in_the_way))
        self._flying.append((set(batches), asyncio.create_task(self._send(batches))))
        # Let it reach the socket; the answer is waited for when the next round is ready.
        for _ in range(4):
            await asyncio.sleep(0)

    async def _land(self, count: int) -> None:
        """Wait for the oldest of those that fly."""
        for _ in range(count):
            _, flying = self._flying.pop(0)
            await flying

    async def _settle(self) -> None:
        """Wait for those that still fly after a fault: an abort must not be overtaken by what it aborts."""
        flying, self._flying = self._flying, []
        await asyncio.gather(*(one for _, one in flying), return_exceptions=True)

    async def _send(self, batches: dict[TopicPartition, EncodedBatch]) -> None:
        topics: dict[str, dict[int, bytearray | memoryview]] = {}
        for at, one in batches.items():
            if one.instead is None:
                topics.setdefault(at.topic, {})[at.partition] = one.batch
        try:
            for topic, some in topics.items():
                await self._send_topic(topic, some)
            # Beside each other: the broker has several hands for them.
            await asyncio.gather(*(self._send_file(one) for one in batches.values() if one.instead is not None))
        except RefusedError as fault:
            if fault.code == ErrorCode.CORRUPT_MESSAGE:
                raise CorruptBatchError(f"rows have changed since they were encoded: {fault}") from None
            if fault.code != ErrorCode.MESSAGE_TOO_LARGE:
                raise
            raise RowsError(
                f"{fault}; a smaller kafka.batch.size lets them through where many rows are too much together, a "
                "larger max.message.bytes of the topic where one row is"
            ) from None

    async def _send_file(self, one: EncodedBatch) -> None:
        """Name a file to its broker; where that cannot take it over, send what is in it."""
        try:
            await self._send_topic(one.at.topic, {one.at.partition: one.batch})
        except RefusedError as fault:
            if fault.code not in _NOT_TAKEN_OVER or one.instead is None:
                raise
            _log.info("%s is sent: %s", one.at, fault)
            for batch in one.instead():
                await self._send_topic(one.at.topic, {one.at.partition: batch.batch})

    async def _send_topic(self, topic: str, batches: dict[int, bytearray | memoryview]) -> None:
        deadline = self._cluster.deadline()
        if self.producer is None:
            await produce(self._cluster, topic, batches, self.acks, deadline)
            return
        landed = await self.producer.send(topic, batches, deadline, self.acks)
        if self.base_offsets is not None:
            for number, offset in landed.items():
                self.base_offsets.setdefault(TopicPartition(topic, number), []).append(offset)
